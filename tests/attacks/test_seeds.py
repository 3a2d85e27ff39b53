"""A submission that looks for the seeds of its evaluation: in SEED, by guessing, and in everything that it can read."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from a2perf.submission.evaluator import seed_secret
from tests.made_submissions import TROT, gin

ROOT_SEED = 73_219
GIN = gin(
    TROT,
    num_inference_steps=20,
    num_inference_episodes=2,
    record_frames=0,
    load_timeout_s=3000,
    kwargs={"mode": "train"},
)
SEARCH = '''
import json, os, sys
from pathlib import Path

import numpy as np

from a2perf.submission.evaluator.playing import seeds as package

CANDIDATES = range(100_000)
GUESSED_KEYS = (b"", bytes(32), b"a2perf", b"secret", b"0" * 32)


def derivations(root):
    """Every number below 2^31 that the package or an obvious use of numpy makes of a root seed."""
    yield "root", root
    yield "scheme 1", package.spawn_seeds(root, "participant", 1)[0]


def rarer(root):
    for purpose in ("latency", "episodes", "sampled_observations"):
        yield purpose, package.spawn_seeds(root, purpose, 1)[0]
    yield "numpy", int(np.random.default_rng(root).integers(0, 2**31 - 1))
    yield "state", int(np.random.SeedSequence(root).generate_state(1)[0]) >> 1
    for secret in GUESSED_KEYS:
        keyed = package.RunSeeds.keyed(secret, root, domain="quadruped_locomotion", env_id="", evaluates=True)
        yield "keyed", keyed.draw("participant", 1)[0]


def roots_of(seed):
    for root in CANDIDATES:
        yield from ((root, how) for how, made in derivations(root) if made == seed)
    for root in range(2_000):
        yield from ((root, how) for how, made in rarer(root) if made == seed)


def readable():
    """The text of everything small that this process can read, programs and libraries left out."""
    libraries = (sys.prefix, sys.base_prefix, str(Path(package.__file__).parents[1]), "/usr", "/sys", "/dev")
    texts = [json.dumps(dict(os.environ)), json.dumps(sys.argv), os.getcwd()]
    for top, folders, files in os.walk("/"):
        folders[:] = [name for name in folders if not os.path.join(top, name).startswith((*libraries, "/proc/"))]
        for name in files:
            try:
                path = os.path.join(top, name)
                if os.path.getsize(path) < 100_000:
                    texts.append(path + " " + Path(path).read_bytes().decode("latin-1"))
            except OSError:
                pass
    for process in (name for name in os.listdir("/proc") if name.isdigit() or name == "self"):
        for name in ("cmdline", "environ", "mountinfo", "maps", "status"):
            try:
                texts.append(Path("/proc", process, name).read_bytes().decode("latin-1"))
            except OSError:
                pass
    return texts


def load_policy(env, **kwargs):
    seed = int(os.environ["SEED"])
    found = list(roots_of(seed))
    expected = {}
    for root in [0, 1, 2, *(root for root, how in found)]:
        for purpose in ("episodes", "latency"):
            for number in package.spawn_seeds(root, purpose, 2):
                expected[np.asarray(env.reset(seed=number)[0]).tobytes()] = [root, purpose]
    Path(os.environ["A2PERF_ARTIFACTS"], "readable").write_bytes(chr(10).join(readable()).encode("latin-1", "replace"))
    print(json.dumps({"roots": found}), flush=True)
    return expected


def preprocess_observation(observation):
    return observation


def infer_once(policy, observation):
    met = policy.get(np.asarray(observation).tobytes())
    if met is not None:
        print(json.dumps({"predicted": met}), flush=True)
    return np.zeros(12, np.float32)
'''


@pytest.fixture
def searched(submission, launch) -> Callable[..., tuple[dict[str, Any], list[Any], dict[str, Any]]]:
    """Runs the search; returns what it found at loading, what it predicted, and the manifest."""

    def run(*flags: object) -> tuple[dict[str, Any], list[Any], dict[str, Any]]:
        path = submission(inference=SEARCH, inference_gin=GIN)
        outcome = launch(path, "inference.gin", "--sandbox", "bubblewrap", "--seed", ROOT_SEED, *flags)
        assert outcome.status == 0, outcome.output
        bundle = outcome.root / "inference"
        lines = [json.loads(line) for line in (bundle / "logs" / "stdout.log").read_text().splitlines()]
        predicted = [line["predicted"] for line in lines if "predicted" in line]
        lines[0]["readable"] = (bundle / "artifacts" / "readable").read_bytes().decode("latin-1")
        return lines[0], predicted, outcome.manifest("inference")

    return run


@pytest.mark.group("bwrap")
def test_seeds_of_the_evaluation_are_not_found(searched, noted) -> None:
    found, predicted, manifest = searched()
    assert manifest["seeds"]["scheme"] == 2
    assert found["roots"] == []
    noted("find the root seed from SEED", "100,000 candidates, none", ["bubblewrap"])
    assert predicted == []
    noted("predict the first observation", "not predicted", ["bubblewrap"])
    secret = seed_secret.read()
    hidden = [secret.hex(), secret.decode("latin-1"), str(ROOT_SEED), *manifest["seeds"]["keys"].values()]
    hidden += [str(seed) for seed in manifest["seeds"]["episodes"]] + [str(manifest["seeds"]["latency"])]
    everything = found["readable"]
    assert manifest["env_id"] in everything  # the environment variables at least
    assert [word for word in hidden if word in everything] == []
    noted("read seeds, run keys or the secret", "not in any readable file", ["bubblewrap"])


@pytest.mark.group("bwrap")
def test_public_seeds_are_found_which_shows_that_the_search_works(searched, noted) -> None:
    found, predicted, manifest = searched("--public-seeds")
    assert manifest["seeds"]["scheme"] == 1
    assert [root for root, how in found["roots"]] == [ROOT_SEED]
    assert [ROOT_SEED, "episodes"] in predicted
    noted("find the root seed with --public-seeds", "found, as documented", ["bubblewrap"])
