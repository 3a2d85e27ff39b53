"""Keys, files and content of datasets stay as ``expected.json`` has them.

``python -m packages.datasets.tests.test_pinned`` records it again; the commit gives the reason.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from tests.commands import call_a2perf, flags
from tests.pinned import condense
from tests.pinned.commands import _files, _shape, _started
from tests.pinned.record import isolate

EXPECTED = Path(__file__).parent / "expected.json"


def recorded(folder: Path) -> dict[str, Any]:
    """A generated dataset: its files, records, attributes, hashes of its content, and what the commands say of it."""
    with contextlib.chdir(folder):
        os.environ["MINARI_DATASETS_PATH"] = str(folder / "datasets")
        made = {"submission": "random", "task": "toy_macro_stdcell", "info": "action_mask", "sandbox": "process"}
        generated = {}
        for name, episodes, seed in (("toys/random-v0", 3, 5), ("toys/more-v0", 2, 6)):
            given = flags(**made, episodes=episodes, seed=seed, id=name, json=True)
            generated[name] = _started(folder, "datasets", "generate", *given)
            assert generated[name].status == 0, generated[name].err
        call_a2perf("datasets", "combine", "toys/random-v0", "toys/more-v0", "--id", "toys/both-v0", check=True)
        answers = {
            f"{verbs[-1]} {name}".strip(): call_a2perf(*verbs, *name.split(), "--json")
            for verbs, name in (
                (("datasets", "list"), ""),
                (("datasets", "list"), "toys/random-v0"),
                (("datasets", "list"), "toys/both-v0"),
                (("validate",), "toys/both-v0"),
            )
        }
    found: dict[str, Any] = {
        "generate": _shape(generated["toys/random-v0"].json(), "content_sha256"),
        "answers": {
            line: {"status": done.status, "answer": _shape(done.json(), "content_sha256")}
            for line, done in answers.items()
        },
        "files": _files(folder / "datasets", {}),
    }
    for name in ("random", "both"):
        with h5py.File(folder / "datasets" / "toys" / f"{name}-v0" / "data" / "main_data.hdf5") as stream:
            items: dict[str, Any] = {}
            stream.visititems(
                lambda path, item, items=items: items.update(
                    {path: [str(item.dtype), list(item.shape), float(np.sum(item[()], dtype=np.float64))]}
                    if isinstance(item, h5py.Dataset)
                    else {path: sorted(item.attrs)}
                )
            )
        found[f"arrays of {name}"] = items
    return found


def test_output_is_as_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)
    found = condense.differences(json.loads(EXPECTED.read_text()), condense.plain(recorded(tmp_path)))
    assert not found, "\n".join(found[:60])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        isolate(Path(temporary))
        condense.write(EXPECTED, recorded(Path(temporary)))
