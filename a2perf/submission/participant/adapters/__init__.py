"""Ready-made ``inference.py``: policies of other libraries as submissions.

``tf_agents``, ``sb3`` and ``callables`` each have a function ``contract`` that returns the three functions of the
contract. They run in the participant process alone; nothing is imported here, and a framework only when a policy is
loaded.
"""
