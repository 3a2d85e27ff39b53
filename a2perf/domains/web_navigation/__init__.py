"""Web navigation: an agent fills the forms of generated websites.

The task follows Gur et al. 2021, "Environment Generation for Zero-Shot Compositional Reinforcement Learning".

This file only describes the domain: its ids and tasks. Importing it loads neither NumPy nor Selenium.
"""

from __future__ import annotations

import functools

from a2perf.domains.host_support import Program, with_wheels
from a2perf.domains.registry import DemonstrationRun, Domain, Environment, Perturbation, Task

LEVELS = (1, 2, 3)
_DIFFICULTY = {1: "easy", 2: "medium", 3: "hard"}
_PURPOSE = "web navigation in a real browser"
CHROMIUM = Program(("chromium", "chromium-browser", "google-chrome"), "chromium", _PURPOSE)
CHROMEDRIVER = Program(("chromedriver",), "chromium-driver", _PURPOSE)
_NUMBERS_OF_WEBSITES = (1, 5, 10)
_STEP_LIMIT = 25  # of an episode on one website

_websites = functools.partial(
    Environment,
    entry_point="a2perf.domains.web_navigation.environment:build_web_env",
    ranking="page",
    vector_entry_point="a2perf.domains.web_navigation.vector:make_vector_env",
    max_episode_steps=_STEP_LIMIT,
)
_ANY = _websites(
    id="WebNavigation-v0",
    title="Websites of your choice",
    summary="fill the forms of websites; requires num_websites and either difficulty or designs",
    example={"num_websites": 2, "difficulty": 2},
)
_LEVELS = tuple(
    _websites(
        id=f"WebNavigation-Difficulty-{level:02d}-v0",
        kwargs={"difficulty": level, "num_websites": 1},
        aliases=(f"WebNavigation-DifficultyLevel-{level:02d}-v0",),
        title=f"Level {level}",
        summary=f"fill the forms of generated {_DIFFICULTY[level]} websites",
    )
    for level in LEVELS
)

_COMPOSED = tuple(
    Environment(
        id=f"WebNavigation-Composed-{depth:02d}-v0",
        entry_point="a2perf.domains.web_navigation.composed:build_composed_env",
        kwargs={"subtasks": 2**depth, "difficulty": list(LEVELS[:depth]), "num_websites": 10},
        title=f"Composed, {2**depth} websites",
        summary=f"fill the forms of {2**depth} websites in a row from one profile; levels {levels}",
        ranking="page",
        vector_entry_point="a2perf.domains.web_navigation.composed:make_composed_vector_env",
        max_episode_steps=_STEP_LIMIT * 2**depth,
    )
    for depth, levels in ((1, "1"), (2, "1 and 2"), (3, "1 to 3"))
)

_LEVEL_TASKS = tuple(
    Task(
        name=f"difficulty_level_{level}_num_websites_{number}",
        env_id=f"WebNavigation-Difficulty-{level:02d}-v0",
        kwargs={"num_websites": number},
        title=f"Level {level}, {number} website{'s' if number > 1 else ''}",
        summary=f"fill the forms of one{f' of {number}' if number > 1 else ''} {_DIFFICULTY[level]} website"
        f"{'s, drawn per episode' if number > 1 else ''}",
    )
    for level in LEVELS
    for number in _NUMBERS_OF_WEBSITES
)
_COMPOSED_TASKS = tuple(
    Task(
        name=f"composed_{depth}{'_reversed' if order == 'reversed' else ''}",
        env_id=environment.id,
        kwargs={"order": order},
        title=f"Composed {depth}{', reversed' if order == 'reversed' else ''}",
        summary=f"{environment.summary}{'; the profile lists them backwards' if order == 'reversed' else ''}",
    )
    for depth, environment in enumerate(_COMPOSED, start=1)
    for order in ("given", "reversed")
)
_TEXT = {"observation": "text"}
_TEXT_TASKS = (
    *(
        Task(
            name=f"text_level_{level}",
            env_id=f"WebNavigation-Difficulty-{level:02d}-v0",
            kwargs={"num_websites": 10, **_TEXT},
            title=f"Level {level}, text",
            summary=f"fill the forms of one of 10 {_DIFFICULTY[level]} websites, read and answered as text",
            view_of=f"difficulty_level_{level}_num_websites_10",
        )
        for level in LEVELS
    ),
    *(
        Task(
            name=f"text_composed_1{'_reversed' if order == 'reversed' else ''}",
            env_id=_COMPOSED[0].id,
            kwargs={"order": order, **_TEXT},
            title=f"Text, 2 websites{', rev.' if order == 'reversed' else ''}",
            summary="fill the forms of 2 websites in a row, read and answered as text"
            f"{'; the instruction names them backwards' if order == 'reversed' else ''}",
            view_of=f"composed_1{'_reversed' if order == 'reversed' else ''}",
        )
        for order in ("given", "reversed")
    ),
)

_PERTURBATIONS = tuple(
    Perturbation(name, f"a2perf.domains.web_navigation.perturbations:{wrapper}", summary)
    for name, wrapper, summary in (
        ("wording", "other_wording", "labels, placeholders and buttons say the same in other words of the vocabulary"),
        ("order", "other_order", "the fields of each form and the parts around it stand in another order"),
        ("layout", "other_layout", "other positions, widths and distances; labels below and parts below the form"),
    )
)

DOMAIN = Domain(
    name="web_navigation",
    title="Web navigation",
    summary="An agent reads a website and fills in its forms from a profile; a wrong link ends the episode.",
    extra="web-navigation",
    environments=(_ANY, *_LEVELS, *_COMPOSED),
    tasks=(*_LEVEL_TASKS, *_COMPOSED_TASKS, *_TEXT_TASKS),
    generalization_tasks=tuple(f"difficulty_level_1_num_websites_{number}" for number in _NUMBERS_OF_WEBSITES),
    held_out="a2perf.domains.web_navigation.sites.generator:held_out_tasks",
    carries={"data/DejaVuSans.ttf": "a2perf.domains.web_navigation.page.layout:font_file"},
    variables={"NUM_WEBSITES": "num_websites"},
    programs=(CHROMIUM, CHROMEDRIVER),
    support=with_wheels("web_navigation"),
    demonstration="a2perf.domains.web_navigation:demonstration_runs",
    data_commands={"websites": "a2perf.domains.web_navigation.commands:websites"},
    perturbations=_PERTURBATIONS,
    views={"observation": "arrays"},
)

_DEMONSTRATED = "difficulty_level_2_num_websites_5"
_READERS = {"random": "minimal", "scripted": "web_solver"}
_SIZE = ("Submission.num_inference_steps = 50", "Submission.num_inference_episodes = 20")


def demonstration_runs(train_seconds: int) -> list[DemonstrationRun]:
    """Returns a run of a random and one of a scripted reader: the quickest part of ``a2perf demo``."""
    del train_seconds
    return [
        DemonstrationRun(
            title=f"a {reader} reader on the websites of {_DEMONSTRATED}",
            folder=f"websites_{reader}",
            submission=submission,
            gin_file=f"{_DEMONSTRATED}/inference.gin",
            bindings=_SIZE,
            first_number_s=5.0,
        )
        for reader, submission in _READERS.items()
    ]
