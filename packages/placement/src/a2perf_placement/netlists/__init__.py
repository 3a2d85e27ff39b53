"""Netlists of other tools: reading LEF, DEF and Bookshelf, grouping standard cells, writing tasks and placements.

Importing this package loads nothing; its modules are the public parts:

* ``importing``: `import_netlist`, from files to a task folder.
* ``placement_export``: `save_task_placement_pnr`, from a placement to DEF or Tcl.
* ``grid_choice``, ``grouping``, ``clustering``: the steps between.
* ``lef``, ``def_reader``, ``bookshelf``: the readers; each returns a `FlatDesign` of ``flat_design``, or its library.
* ``flat_generator``: generated designs in these formats.
"""
