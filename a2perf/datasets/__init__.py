"""Offline datasets: recorded episodes of policies in Minari's layout, with the energy that they took.

Reading (``open_dataset``) needs the extra ``datasets`` (Minari and h5py). Generating, combining and validating are
commands of ``a2perf datasets``, which import their modules on demand.
"""

from a2perf.datasets.reader import Dataset, DatasetEpisode, open_dataset
from a2perf.datasets.transitions import Batch, Transitions

__all__ = ["Batch", "Dataset", "DatasetEpisode", "Transitions", "open_dataset"]
