"""A change that alters an environment is noticed: spaces and traces are compared with the recorded fingerprints."""

import importlib.metadata
import json
import platform
from pathlib import Path

import pytest

from a2perf import assets, domains
from a2perf.domains.registry import other_engine, recorded_fingerprints, stored_fingerprint
from a2perf.errors import UserError
from tests.fingerprints.computed import environment_fingerprint

FOLDER = Path(__file__).parent.parent / "fingerprints"
RECORDED = sorted(path.stem for path in FOLDER.glob("*.json"))


@pytest.fixture(autouse=True)
def no_fetching(monkeypatch):
    monkeypatch.setenv(assets.OFFLINE_VARIABLE, "1")


@pytest.mark.parametrize("env_id", RECORDED)
def test_environment_is_what_was_recorded(env_id):
    recorded = json.loads((FOLDER / f"{env_id}.json").read_text())
    assert stored_fingerprint(env_id) == recorded["sha256"], "the packaged fingerprint is another one"
    try:
        now = environment_fingerprint(env_id)
    except (UserError, ImportError) as error:
        pytest.skip(f"{env_id} cannot be made here: {str(error).splitlines()[0]}")
    different = [part for part in ("spaces", "traces") if now[part] != recorded[part]]
    assert not different, f"{env_id}: {', '.join(different)} changed; bump to -v1 or restore"


def test_every_shipped_fingerprint_is_of_a_known_id():
    for domain in domains.domains().values():
        known = {environment.id for environment in domain.environments}
        assert set(recorded_fingerprints(domain.name)) <= known


def test_another_build_of_a_physics_engine_is_named(monkeypatch):
    def version(name):
        if name != "pybullet-arm64":
            raise importlib.metadata.PackageNotFoundError(name)
        return "3.2.8"

    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    monkeypatch.setattr(importlib.metadata, "version", version)
    said = "pybullet-arm64 3.2.8 on Darwin arm64, references with pybullet 3.2.7"
    assert other_engine("QuadrupedLocomotion-DogPace-v0") == said
    assert other_engine("WebNavigation-v0") == ""
