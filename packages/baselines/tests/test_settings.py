"""Settings of a training run: which file is read, what overrides what, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from a2perf.errors import ConfigError
from a2perf_baselines import learning


@dataclass(frozen=True)
class Settings:
    total_steps: int = learning.may_change(100)
    rate: float = 1e-3
    layers: tuple[int, ...] = (64, 64)
    dataset: str | None = None
    normalise: bool = True


def write(folder: Path, **files: str) -> Path:
    (folder / "configs").mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / "configs" / f"{name}.gin").write_text(text)
    return folder


def test_the_task_decides_which_file_is_read(a_run: Callable[..., Path], tmp_path: Path) -> None:
    write(
        tmp_path,
        quadruped_locomotion="Settings.rate = 1\nSettings.layers = [8, 4]\n",
        dog_pace="include 'quadruped_locomotion.gin'\nSettings.total_steps = 7\n",
        default="Settings.rate = 3.0\n",
    )
    a_run("QuadrupedLocomotion-DogPace-v0", mode="train")
    assert learning.read_settings(Settings, {}, tmp_path) == Settings(total_steps=7, rate=1.0, layers=(8, 4))
    a_run("QuadrupedLocomotion-DogTrot-v0")
    assert learning.read_settings(Settings, {}, tmp_path) == Settings(rate=1.0, layers=(8, 4))
    a_run("CartPole-v1")
    assert learning.read_settings(Settings, {}, tmp_path).rate == 3.0


def test_keyword_arguments_of_the_environment_tell_tasks_apart(a_run: Callable[..., Path]) -> None:
    a_run("WebNavigation-Difficulty-01-v0", num_websites=5)
    assert learning.task_names()[0] == "difficulty_level_1_num_websites_5"
    a_run("WebNavigation-Difficulty-01-v0", num_websites=77)
    assert learning.task_names() == ["WebNavigation-Difficulty-01-v0", "web_navigation", "default"]


def test_participant_arguments_come_last(a_run: Callable[..., Path], tmp_path: Path) -> None:
    a_run()
    write(tmp_path, default="Settings.rate = 3.0\n", other="Settings.dataset = 'x'\n")
    given = {"layers": "32:16", "total_steps": "5_000", "normalise": "false"}
    settings = learning.read_settings(Settings, given, tmp_path)
    assert settings == Settings(total_steps=5000, rate=3.0, layers=(32, 16), normalise=False)
    assert learning.read_settings(Settings, {"config": "other"}, tmp_path) == Settings(dataset="x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Settings.rat = 1.0\n", r"default.gin:1: there is no setting 'rat'; did you mean 'rate'\?"),
        ("\nSettings.rate = 'fast'\n", "default.gin:2: rate is 'fast', which is not of type float"),
        ("Settings.rate = @other\n", "@other is a reference"),
        ("create_domain.env_name = 'x'\n", "default.gin:1 is not a line"),
        ("include 'default.gin'\n", "includes itself"),
        ("Settings.rate = \n", "default.gin"),
    ],
)
def test_a_wrong_line_is_named_by_file_and_number(
    a_run: Callable[..., Path], tmp_path: Path, text: str, message: str
) -> None:
    a_run()
    with pytest.raises(ConfigError, match=message):
        learning.read_settings(Settings, {}, write(tmp_path, default=text))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"layer": "3"}, "did you mean 'layers'"),
        ({"total_steps": "many"}, "total_steps='many' is not of type int"),
        ({"config": "dog_pase"}, "there are no settings 'dog_pase'; did you mean 'dog_pace'"),
    ],
)
def test_a_wrong_participant_argument_is_named(
    a_run: Callable[..., Path], tmp_path: Path, given: dict[str, str], message: str
) -> None:
    a_run()
    with pytest.raises(ConfigError, match=message):
        learning.read_settings(Settings, given, write(tmp_path, dog_pace=""))


def test_a_domain_that_a_submission_does_not_know_is_named(a_run: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "web_navigation.py").touch()
    a_run("QuadrupedLocomotion-DogPace-v0")
    with pytest.raises(ConfigError, match="does not support quadruped_locomotion") as refused:
        learning.domain_module(tmp_path)
    assert refused.value.hint == "use an environment of: web_navigation"
