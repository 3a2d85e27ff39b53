"""Chromium as text: the same pages, rewards and errors as on the page model, and its own pictures."""

from __future__ import annotations

import gymnasium
import pytest

pytestmark = pytest.mark.group("chromium")


TOUCHES = {
    "textbox": ('fill {} "Zo\u00eb <b> \\"&amp;"', 'fill {} ""'),
    "password": ('fill {} " \\\\ "',),
    "number": ('fill {} "many"', 'fill {} "7"'),
    "checkbox": ("uncheck {}", "check {}", "click {}"),
    "radio": ("click {}",),
    "select": ('select {} "NY"',),
    "text": ("click {}",),
}


def _touching_all(page: str) -> list[str]:
    """Returns actions on every element that does not lead away."""
    lines = [line.split() for line in page.split("\n")[1:]]
    return [form.format(number) for number, role, *_ in lines for form in TOUCHES.get(role, ())]


@pytest.mark.parametrize(
    "env_id", ["WebNavigation-Difficulty-01-v0", "WebNavigation-Difficulty-03-v0", "WebNavigation-Composed-01-v0"]
)
def test_a_browser_reads_like_the_page_model(env_id: str) -> None:
    model, browser = (
        gymnasium.make(
            env_id, num_websites=50, observation="text", backend=backend, step_limit=200, disable_env_checker=True
        )
        for backend in ("model", "chromium")
    )
    with browser:
        steps = 0
        for seed in range(4):
            shown, same = model.reset(seed=seed)[0], browser.reset(seed=seed)[0]
            solution = model.unwrapped.solution()
            assert browser.unwrapped.solution() == solution
            for action in (*_touching_all(shown["page"]), "nonsense", "click 999", *solution):
                assert shown == same
                shown, *outcome, info = model.step(action)
                same, *other, same_info = browser.step(action)
                assert (outcome, info) == (other, same_info)
                steps += 1
            assert (shown, info["is_success"]) == (same, True)
        assert steps > 20


def test_a_screenshot_comes_from_the_browser() -> None:
    design = {"action": ["city"], "action_page": [0]}
    with gymnasium.make(
        "WebNavigation-v0", num_websites=1, designs=[design], observation="screenshot", backend="chromium"
    ) as env:
        before, _ = env.reset(seed=0)
        after, *_ = env.step(env.unwrapped.solution()[0])
        assert before["screenshot"].shape == after["screenshot"].shape == (667, 375, 3)
        assert (before["screenshot"] != after["screenshot"]).any()
        assert after in env.observation_space
