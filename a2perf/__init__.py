"""a2perf: run, measure and score reinforcement-learning submissions.

Importing this package loads nothing heavy. It makes the environments known to Gymnasium, in whichever order the two are
imported; ``gymnasium.make("a2perf:NAME-v0")`` imports it by itself.
"""

from a2perf._register_environments import register_with_gymnasium
from a2perf._version import __version__ as __version__

register_with_gymnasium()
