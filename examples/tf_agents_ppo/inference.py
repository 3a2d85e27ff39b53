"""The policy that `train.py` left; for some domains it is read in another way, in the file named like them."""

from __future__ import annotations

import importlib
import importlib.util
import os

from a2perf.submission.adapters import tf_agents

part = None
if os.environ.get("A2PERF_ENV_ID"):
    from a2perf.training import domain_name

    name = domain_name()
    part = importlib.import_module(name) if importlib.util.find_spec(name) else None

contract = getattr(part, "contract", tf_agents.contract)
load_policy, preprocess_observation, infer_once = contract()
