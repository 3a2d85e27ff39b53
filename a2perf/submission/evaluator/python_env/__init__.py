"""Isolated Python environments: built from a submission's ``requirements.txt``, cached, used only by its process."""

from a2perf.submission.evaluator.python_env.environments import (
    BuiltEnvironment,
    Recipe,
    environment,
    folder_of_environments,
    list_environments,
)
from a2perf.submission.evaluator.python_env.installer import Sources
from a2perf.submission.evaluator.python_env.interpreter import find_interpreter
from a2perf.submission.evaluator.python_env.own_wheel import requirements_of_domain
from a2perf.submission.evaluator.python_env.requirements import read_requirements

__all__ = [
    "BuiltEnvironment",
    "Recipe",
    "Sources",
    "environment",
    "find_interpreter",
    "folder_of_environments",
    "list_environments",
    "read_requirements",
    "requirements_of_domain",
]
