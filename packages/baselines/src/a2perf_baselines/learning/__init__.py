"""The parts of a training script around the algorithm: settings, resuming, checkpoints, the learning curve.

    settings = learning.read_settings(Settings, participant_args, Path(__file__).parent)
    with learning.begin(settings) as run:
        ...
        run.average_return(value, step)
        run.save(step, write, state)

It does not depend on a framework and runs in the participant process. ``learning.tf_agents`` and ``learning.sb3`` hold
the parts for TF-Agents and Stable-Baselines3; a script imports the one that it uses.
"""

from a2perf_baselines.learning._checkpoints import TrainingCheckpoint, replace, restore_rng, rng_state
from a2perf_baselines.learning._command_line import main
from a2perf_baselines.learning._evaluation import evaluate, evaluate_vector
from a2perf_baselines.learning._run import TrainingRun, begin
from a2perf_baselines.learning._settings import domain_module, domain_name, may_change, read_settings, task_names

__all__ = [
    "TrainingCheckpoint",
    "TrainingRun",
    "begin",
    "domain_module",
    "domain_name",
    "evaluate",
    "evaluate_vector",
    "main",
    "may_change",
    "read_settings",
    "replace",
    "restore_rng",
    "rng_state",
    "task_names",
]
