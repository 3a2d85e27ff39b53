"""Ready-made ``inference.py``: policies of other libraries as submissions.

``tf_agents``, ``sb3``, ``callables`` and ``live`` each have a function ``contract`` that returns the three functions
of the contract. They run only in the participant process. Nothing is imported here; a framework is imported when a
policy is loaded.
"""
