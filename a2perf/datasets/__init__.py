"""Offline datasets: episodes of policies, in the layout of Minari, with what they cost.

Reading (``open_dataset``) needs the extra ``datasets``, that is Minari and h5py, and no JAX. Making, combining and
validating are ``a2perf datasets``; their modules are imported there.
"""

from a2perf.datasets.reader import Dataset, DatasetEpisode, open_dataset
from a2perf.datasets.transitions import Batch, Transitions

__all__ = ["Batch", "Dataset", "DatasetEpisode", "Transitions", "open_dataset"]
