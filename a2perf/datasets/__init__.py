"""Offline data sets: episodes of policies, in the layout of Minari, with what they cost.

Reading (``open_dataset``) needs NumPy, Gymnasium and h5py alone, so that a training can do it in any environment.
Making, combining and validating are ``a2perf datasets``; their modules are imported there.
"""

from a2perf.datasets.reader import Dataset, Episode, open_dataset
from a2perf.datasets.transitions import Batch, Transitions

__all__ = ["Batch", "Dataset", "Episode", "Transitions", "open_dataset"]
