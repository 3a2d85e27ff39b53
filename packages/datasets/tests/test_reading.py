"""Reading: episodes and transitions as they were written, batches that a seed repeats, errors that name the place."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces

from a2perf.errors import ConfigError, UserError
from a2perf_datasets import open_dataset
from a2perf_datasets.naming import DatasetId, all_ids, root_folder
from a2perf_datasets.space_json import differences, from_json, leaves, to_json
from packages.datasets.tests.toys import ACTION, OBSERVATION, Write, played

CLAIMED = "energy claimed by the participant, not measured here"


def test_an_episode_is_read_as_it_was_played(write: Write) -> None:
    data = write()
    episode, expected = data.episode(2), played(12, 4)
    assert len(episode) == 4
    assert episode.seed == 12
    assert set(episode.observations) == {"grid", "inner", "flags"}
    assert np.array_equal(episode.observations["grid"], expected.arrays["observations/grid"])
    assert episode.observations["grid"].dtype == np.int32
    assert np.array_equal(episode.observations["inner"][1], expected.arrays["observations/inner/_index_1"])
    assert np.array_equal(episode.actions, expected.arrays["actions"])
    assert episode.rewards.tolist() == [1, 2, 3, 4]
    assert episode.terminations.tolist() == [False, False, False, True]
    assert episode.infos["action_mask"].shape == (5, 7)
    assert data.lengths.tolist() == [3, 1, 4]
    assert data.returns.tolist() == [6, 1, 10]
    assert data.seeds.tolist() == [10, 11, 12]


def test_transitions_hold_every_step_once(write: Write) -> None:
    data = write()
    found = data.transitions()
    assert len(found) == 8
    assert found.episode.tolist() == [0, 0, 0, 1, 2, 2, 2, 2]
    assert found.rewards.tolist() == [1, 2, 3, 1, 1, 2, 3, 4]
    expected = np.concatenate([data.episode(index).observations["grid"][:-1] for index in range(3)])
    assert np.array_equal(found.observations["grid"], expected)
    assert found.observations["grid"].base is None or found.observations["grid"].flags.owndata is False
    with pytest.raises(UserError, match="not loaded"):
        _ = found.next_observations


def test_next_observations_are_those_after_the_action(write: Write) -> None:
    data = write()
    found = data.transitions(next_observations=True, infos=("action_mask",))
    after = np.concatenate([data.episode(index).observations["inner"][0][1:] for index in range(3)])
    assert np.array_equal(found.next_observations["inner"][0], after)
    batch = found.batch([2, 3, 7])  # the ends of all three episodes
    assert np.array_equal(batch.next_observations["inner"][0], after[[2, 3, 7]])
    assert np.array_equal(batch.observations["grid"], data.transitions().observations["grid"][[2, 3, 7]])
    assert batch.terminations.all()
    assert batch.infos["action_mask"].shape == (3, 7)


def test_only_what_is_asked_for_is_loaded(write: Write) -> None:
    data = write()
    found = data.transitions(keys=["flags"], episodes=[2, 0], limit=5)
    assert list(found.observations) == ["flags"]
    assert found.episode.tolist() == [2, 2, 2, 2, 0]
    assert found.nbytes < data.transitions().nbytes / 10
    with pytest.raises(UserError, match="no entry 'flagz'; did you mean 'flags'"):
        data.transitions(keys=["flagz"])
    with pytest.raises(UserError, match="no episode 3"):
        data.transitions(episodes=[3])


def test_batches_are_repeated_by_their_seed(write: Write) -> None:
    found = write().transitions()
    first, again, other = (
        [batch.indices.tolist() for batch in found.batches(3, seed=seed, epochs=2)] for seed in (5, 5, 6)
    )
    assert first == again != other
    assert [len(indices) for indices in first] == [3, 3, 2, 3, 3, 2]
    for epoch in (first[:3], first[3:]):
        assert sorted(itertools.chain(*epoch)) == list(range(8))
    assert [len(batch.indices) for batch in found.batches(3, drop_last=True)] == [3, 3]
    in_order = [batch.indices.tolist() for batch in found.batches(5, shuffle=False)]
    assert in_order == [[0, 1, 2, 3, 4], [5, 6, 7]]
    with pytest.raises(UserError, match="batch size 9"):
        next(found.batches(9, drop_last=True))


def test_a_data_set_is_found_by_name_and_by_path(write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    data = write()
    root = tmp_path / "datasets"
    assert all_ids(root) == ["toys/boxes/made-v0"]
    for given in (data.path, data.path.parent, data.file):
        assert open_dataset(given).path == data.path
    assert open_dataset("toys/boxes/made-v0", root).path == data.path
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(root))
    assert open_dataset("toys/boxes/made-v0").id == "toys/boxes/made-v0"
    with pytest.raises(UserError, match=r"no dataset toys/boxes/mad-v0 .*did you mean 'toys/boxes/made-v0'"):
        open_dataset("toys/boxes/mad-v0")
    with pytest.raises(UserError, match="is not a dataset"):
        open_dataset(tmp_path)
    monkeypatch.delenv("MINARI_DATASETS_PATH")
    monkeypatch.setenv("A2PERF_DATASETS_DIR", str(tmp_path / "other"))
    assert root_folder() == tmp_path / "other"
    monkeypatch.delenv("A2PERF_DATASETS_DIR")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    assert root_folder() == tmp_path / "share" / "a2perf" / "datasets"


def test_names_are_checked() -> None:
    name = DatasetId.parse("quadruped_locomotion/dog_pace/expert-v0")
    assert (name.namespace, name.name, name.version) == ("quadruped_locomotion/dog_pace", "expert", 0)
    assert str(name) == "quadruped_locomotion/dog_pace/expert-v0"
    assert str(DatasetId.parse("small-v12")) == "small-v12"
    for bad in ("expert", "../expert-v0", "/expert-v0", "a//b-v0", "a b-v0", ""):
        with pytest.raises(ConfigError, match="not a dataset name"):
            DatasetId.parse(bad)


def test_spaces_come_back_from_their_text() -> None:
    for space in (OBSERVATION, ACTION, spaces.Box(-np.inf, np.array([1.0, 2.0]), dtype=np.float64)):
        again = from_json(to_json(space))
        assert again == space
        assert [leaf.dtype for _, leaf in leaves(again, "x")] == [leaf.dtype for _, leaf in leaves(space, "x")]
    with pytest.raises(ConfigError, match="space/words is a Text space"):
        to_json(spaces.Dict({"words": spaces.Text(4)}))
    with pytest.raises(ConfigError, match="not a supported Gymnasium space"):
        from_json('{"type": "Blob"}')


def test_a_data_set_of_another_environment_is_refused(write: Write) -> None:
    data = write()
    data.require_fit((OBSERVATION, ACTION))
    other = spaces.Dict({**OBSERVATION.spaces, "grid": spaces.Box(0, 9, (32, 21), np.int32)})
    with pytest.raises(UserError, match=r"observation/grid is Box\(0 to 9, \(32, 20\), int32\) in the dataset and"):
        data.require_fit((other, ACTION))
    with pytest.raises(UserError, match="action is MultiDiscrete"):
        data.require_fit((OBSERVATION, spaces.Discrete(4)))
    assert differences(OBSERVATION, spaces.Dict({"grid": OBSERVATION["grid"]}), "seen", names=("one", "two")) == [
        "seen/flags is only in one",
        "seen/inner/_index_0 is only in one",
        "seen/inner/_index_1 is only in one",
    ]


def test_a_training_leaves_a_note_of_what_it_used(
    write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from a2perf.runs import files_of
    from a2perf.runs.dataset_notes import read_notes

    data = write()
    artifacts = tmp_path / "artifacts"
    artifacts.mkdir()
    data.transitions()
    assert read_notes(files_of(tmp_path)) == ([], [])  # no training runs
    monkeypatch.setenv("A2PERF_ARTIFACTS", str(artifacts))
    data.transitions(limit=5)
    data.transitions(limit=2)  # of the same samples
    (note,), conditions = read_notes(files_of(tmp_path))
    assert [condition.partition(": ")[2] for condition in conditions] == [CLAIMED]
    assert (note.dataset_id, note.samples) == ("toys/boxes/made-v0", 5)
    assert note.content_sha256 == data.content_sha256
    assert note.checkpoint_kwh == [2.0]
    assert note.per_sample_kwh == pytest.approx((2.0 + 0.25) / 8)
    assert note.kwh == pytest.approx(5 * 2.25 / 8)
    list(data.episodes())
    assert read_notes(files_of(tmp_path))[0][0].samples == 8
    (artifacts / "a2perf_datasets" / "forged.json").write_text('{"dataset_id": 3}')
    assert "artifacts/a2perf_datasets/forged.json could not be read" in [
        line.split(":")[0] for line in read_notes(files_of(tmp_path))[1]
    ]
