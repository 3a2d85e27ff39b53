"""A competition from its creation to its site: secrets by commit and reveal, one outcome per entrant."""

from __future__ import annotations

import dataclasses
import json
import os
import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner

import a2perf_competition as competitions
from a2perf.domains.registry import domains, load_attribute, register_environments
from a2perf.errors import ConfigError, UserError
from a2perf.launch import RunSpec
from a2perf.runs import signing
from a2perf.storage import read_json
from a2perf_competition import run_entrants
from a2perf_competition.command import competition as command
from a2perf_competition.entrants import Entrant, Entrants, enter_all
from a2perf_competition.page import FrontPage, competition_page
from a2perf_competition.records import Competition, CompetitionTerms
from a2perf_competition.required_runs import required_runs
from a2perf_competition.run_entrants import run_specs
from a2perf_competition.standings import EntrantStanding, TaskStanding, ranked
from tests.accessibility import problems
from tests.made_submissions import policy, write_submission
from tests.report.browser import Browser
from tests.submission import wheels


def standing(name: str, tasks: list[TaskStanding], **given: object) -> EntrantStanding:
    return EntrantStanding(number=0, name=name, place=name, sha256="", tasks=tasks, **given)  # type: ignore[arg-type]


def terms(**changes: object) -> CompetitionTerms:
    given: dict = {
        "name": "cup",
        "domain": "quadruped_locomotion",
        "public_task": "varied_trot",
        "held_out": 2,
        "episodes": 3,
        **changes,
    }
    return CompetitionTerms(**given)


def allowed(*submissions: Path) -> Entrants:
    """Entrants at a level that every machine has; it hides nothing, which has to be allowed."""
    return Entrants(submissions, sandbox="process", allow_weaker=True)


def write(folder: Path, name: str, *, load: str = "pass", infer: str = "pass", requirements: str = "") -> Path:
    """Writes a submission with random actions and the given code."""
    inference = policy(
        load=f"{textwrap.dedent(load).strip()}\nenv.action_space.seed(0)\nreturn env.action_space",
        infer=f"{infer.strip()}\nreturn policy.sample()",
    )
    return write_submission(folder / name, inference, requirements=requirements)


def cup(folder: Path, **changes: object) -> Competition:
    return competitions.create(folder / "cup", terms(**changes))


def planned(made: Competition, entrants: Entrants) -> list[RunSpec]:
    return run_specs(made, entrants, enter_all(made, entrants))


def place(made: Competition, entrant: str, task: str, seed: int = 0, mode: str = "inference") -> Path:
    """Returns the bundle of a run; its folder is a hash and not the name of the task."""
    listed: dict[str, Entrant] = {one.place: one for one in competitions.read_entrants(made).all()}
    runs = required_runs(made.terms, made.secret, listed[entrant].place)
    (one,) = [one for one in runs if (one.task.name, one.seed, one.mode) == (task, seed, mode)]
    return made.runs / entrant / one.bundle


def run(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(command, [str(word) for word in arguments], standalone_mode=False)
    if done.exception:
        raise done.exception
    return done.return_value or 0, done.output


# --- commit and reveal ----------------------------------------------------------------------------------------------


def test_the_public_half_tells_nothing_of_the_secrets(tmp_path: Path) -> None:
    made = cup(tmp_path)
    published = "".join(path.read_text() for path in made.public.rglob("*") if path.is_file())
    numbers = [made.secret.generator_seed, *(task.kwargs["gait_seed"] for task in made.secret.tasks)]
    assert len(numbers) == 1 + 2
    assert not [number for number in numbers if str(number) in published]
    assert made.secret.salt not in published
    assert made.private.stat().st_mode & 0o777 == 0o700
    assert json.loads((made.public / "commitment.json").read_text())["commitment"] == made.commitment.commitment


def test_the_same_terms_never_give_the_same_commitment(tmp_path: Path) -> None:
    first, second = cup(tmp_path / "a"), cup(tmp_path / "b")
    assert first.commitment.commitment != second.commitment.commitment
    assert first.secret.seed_secret(["a"], {}) != second.secret.seed_secret(["a"], {})


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("private/secret.json", '"salt": "', '"salt": "00'),
        ("private/secret.json", '"gait_seed": ', '"gait_seed": 1'),
        ("public/terms.json", '"episodes": 3', '"episodes": 2'),
        ("public/inference.gin", "num_inference_episodes = 3", "num_inference_episodes = 2"),
        ("public/secret.gin", "call_timeout_s = 10.0", "call_timeout_s = 99.0"),
        ("public/evaluator.json", '"python": "CPython', '"python": "CPython '),
    ],
)
def test_changed_secrets_and_terms_are_refused(tmp_path: Path, file: str, old: str, new: str) -> None:
    made = cup(tmp_path)
    path = made.folder / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(UserError, match="are not those of the published commitment"):
        competitions.load(made.folder)


def test_a_reveal_is_checked_against_the_hash_that_was_published_first(tmp_path: Path) -> None:
    made = cup(tmp_path)
    competitions.reveal(made, tmp_path / "reveal")
    assert competitions.check_reveal(tmp_path / "reveal", made.commitment.commitment).problems == []
    other = cup(tmp_path / "other")
    (problem,) = competitions.check_reveal(tmp_path / "reveal", other.commitment.commitment).problems
    assert "was published first" in problem
    secret = tmp_path / "reveal" / "secret.json"
    data = json.loads(secret.read_text())
    data["generator_seed"] += 1
    secret.write_text(json.dumps(data))
    (problem,) = competitions.check_reveal(tmp_path / "reveal").problems
    assert "but commitment.json says" in problem
    assert run("verify", tmp_path / "reveal")[0] == 1


def test_after_the_reveal_nobody_can_enter(tmp_path: Path) -> None:
    made = cup(tmp_path)
    entrant = write(tmp_path, "late")
    assert planned(made, allowed(entrant))
    competitions.reveal(made, tmp_path / "reveal")
    with pytest.raises(UserError, match="were revealed"):
        planned(made, allowed(entrant))


def test_the_list_of_entrants_is_sealed_and_closed(tmp_path: Path) -> None:
    made = cup(tmp_path)
    ada, grace, late = (write(tmp_path, name) for name in ("ada", "grace", "late"))
    first = enter_all(made, allowed(ada, grace))
    assert [(entrant.number, entrant.place) for entrant, _ in first] == [(1, "ada"), (2, "grace")]
    assert enter_all(made, allowed(grace))[0][0] == first[1][0]
    (grace / "inference.py").write_text("# better\n")
    ((again, _),) = enter_all(made, allowed(grace))
    assert (again.number, again.place) == (3, "grace@2")
    listed = competitions.close(made)
    assert [len(one.entrants) for one in listed.rounds] == [2, 1]
    with pytest.raises(ConfigError, match="which was closed"):
        enter_all(made, allowed(late))
    file = made.public / "entrants.json"
    sealed = file.read_text()
    for old, new in (('"ada"', '"eve"'), (first[0][0].sha256, "0" * 64), ('"number": 2', '"number": 4')):
        file.write_text(sealed.replace(old, new, 1))
        with pytest.raises(UserError, match=r"entrants\.json"):
            enter_all(made, allowed(ada))
    file.write_text(sealed)
    assert enter_all(made, allowed(ada))[0][0] == first[0][0]


def test_the_seeds_of_all_runs_follow_from_salt_folders_and_nonces_and_not_from_their_order(tmp_path: Path) -> None:
    made = cup(tmp_path)
    draws = [
        made.secret.seed_secret(folders, nonces)
        for folders, nonces in (
            (["a", "b"], {}),
            (["a"], {}),
            (["a", "c"], {}),
            (["a", "b", "b"], {}),
            (["a", "b"], {"x": ""}),
            (["a", "b"], {"x": "1"}),
            (["a", "b"], {"x": "2"}),
        )
    ]
    assert len(set(draws)) == len(draws)
    assert made.secret.seed_secret(["b", "a"], {}) == draws[0]
    again = competitions.load(made.folder).secret
    assert again.seed_secret(["a", "b"], {"y": "2", "x": "1"}) == again.seed_secret(["b", "a"], {"x": "1", "y": "2"})


def test_entrants_enter_sorted_by_name_whatever_the_order_of_the_command_line(tmp_path: Path) -> None:
    made, other = cup(tmp_path / "a"), cup(tmp_path / "b")
    ada, grace = (write(tmp_path, name) for name in ("ada", "grace"))
    enter_all(made, allowed(ada, grace))
    enter_all(other, allowed(grace, ada))
    listed, same = (competitions.read_entrants(one).all() for one in (made, other))
    assert listed == same


def test_a_nonce_is_committed_in_the_folder_and_revealed_for_one_draw(tmp_path: Path) -> None:
    made = cup(tmp_path, train=False)
    ada, grace = (write(tmp_path, name) for name in ("ada", "grace"))
    first, second = (run("nonce", entry)[1].strip() for entry in (ada, grace))
    assert len({first, second}) == 2
    with pytest.raises(ConfigError, match="another nonce is committed"):
        run("nonce", ada)
    assert run("run", made.folder, "--submission", ada, "--submission", grace, "--close-only")[0] == 0
    with pytest.raises(ConfigError, match="belongs to no listed entry"):
        competitions.draw_seeds(made, ["0" * 64])
    drawn = competitions.draw_seeds(made, [first])
    listed = competitions.read_entrants(made)
    assert drawn.problems(listed) == []
    assert drawn.refusals(listed) == {"grace": "its nonce was not revealed before the seeds were drawn"}
    assert competitions.draw_seeds(made, [first]) == competitions.draw_seeds(made) == drawn
    with pytest.raises(ConfigError, match="the seeds were drawn at"):
        competitions.draw_seeds(made, [first, second])
    both = dataclasses.replace(made, folder=made.folder)
    (both.public / "draw.json").unlink()
    all_revealed = competitions.draw_seeds(both, [second, first])
    assert all_revealed.refusals(listed) == {}
    assert all_revealed.seed_secret(made.secret, listed) != drawn.seed_secret(made.secret, listed)


def test_terms_can_require_nonces(tmp_path: Path) -> None:
    made = cup(tmp_path, nonces_required=True)
    with_nonce, without = write(tmp_path, "ada"), write(tmp_path, "bob")
    run("nonce", with_nonce)
    odd = write(tmp_path, "eve")
    (odd / "nonce.sha256").write_text("not a hash")
    entered = {one.name: one for one, _ in enter_all(made, allowed(with_nonce, without, odd))}
    assert {name: bool(one.refused) for name, one in entered.items()} == {"ada": False, "bob": True, "eve": True}
    assert "which the terms require" in entered["bob"].refused
    assert "64 hexadecimal digits" in entered["eve"].refused


def test_the_terms_are_numbers_and_part_of_every_run(tmp_path: Path) -> None:
    made = cup(tmp_path, cpu_limit=0.5)
    stated = json.loads((made.public / "terms.json").read_text())
    assert {name: stated[name] for name in ("memory_limit_bytes", "cpu_limit", "process_limit")} == {
        "memory_limit_bytes": 4 * 2**30,
        "cpu_limit": 0.5,
        "process_limit": 512,
    }
    for file in ("training.gin", "inference.gin", "secret.gin"):
        text = (made.public / file).read_text()
        for line in (
            "memory_limit_bytes = 4294967296",
            "cpu_limit = 0.5",
            "process_limit = 512",
            "artifact_limit_bytes = 17179869184",
            "run_time_limit_s = 86400.0",
        ):
            assert f"Submission.{line}\n" in text, (file, line)


def test_more_runs_than_the_host_has_memory_for_are_refused(tmp_path: Path) -> None:
    made = cup(tmp_path, train=False, held_out=0)
    entry = write(tmp_path, "ada")
    status, said = run(
        "init",
        tmp_path / "other",
        "--domain",
        "quadruped_locomotion",
        "--set",
        "sandbox=process",
        "--set",
        f"memory_limit_bytes={2**50}",
    )
    assert status == 0, said
    with pytest.raises(ConfigError, match="than this host"):
        run("run", tmp_path / "other", "--submission", entry)
    with pytest.raises(ConfigError, match=r"64 run\(s\) at a time"):
        run_entrants.check_host(terms(memory_limit_bytes=2**33), Entrants((entry,)), 64)
    with pytest.raises(ConfigError, match="give each run 4096 processors"):
        run_entrants.check_host(terms(memory_limit_bytes=2**20, cpu_limit=4096.0), Entrants((entry,)), 1)
    assert made.terms.sandbox == "bubblewrap"


def test_runs_that_cannot_divide_the_processors_run_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from a2perf.sandbox import limits

    monkeypatch.setattr(limits, "place", lambda: limits.GroupParent(2, {}))
    given = Entrants((write(tmp_path, "ada"),), sandbox="process", allow_weaker=True)
    assert run_entrants.check_host(terms(), given, 8) == 1
    assert "one run at a time" in capsys.readouterr().err


def test_consent_to_a_level_that_cannot_hide_the_secrets_is_published(tmp_path: Path) -> None:
    made = cup(tmp_path)
    enter_all(made, allowed(write(tmp_path, "ada")))
    (sealed,) = competitions.read_entrants(made).rounds
    assert (sealed.sandbox, sealed.allow_weaker) == ("process", True)


def test_other_code_than_the_committed_one_runs_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from a2perf_competition import records

    made = cup(tmp_path)
    run_entrants.check_evaluator(made)
    monkeypatch.setattr(records, "package_sha256", lambda *package: "0" * 64)
    with pytest.raises(UserError, match="a2perf_sha256 is 0000"):
        run_entrants.check_evaluator(made)


def test_a_competition_of_an_earlier_version_is_refused_with_the_reason(tmp_path: Path) -> None:
    made = cup(tmp_path)
    (made.public / "evaluator.json").unlink()
    with pytest.raises(UserError, match="created by an earlier a2perf"):
        competitions.load(made.folder)


def test_ranks_follow_the_secret_tasks_and_ties_share_one() -> None:
    def entrant(number: int, secret: list[float], failures: list[list[str]]) -> EntrantStanding:
        tasks = [
            TaskStanding(task="open", held_out=False, returns=[100.0 - number]),
            TaskStanding(task="one", held_out=True, returns=secret, failures=failures),
        ]
        return EntrantStanding(number=number, name=str(number), place=str(number), sha256="", tasks=tasks)

    found = ranked(
        [
            entrant(1, [1.0, 3.0], []),
            entrant(2, [9.0], [["timeout", "why"]]),
            entrant(3, [5.0, 5.0], []),
            entrant(4, [2.0, 2.0], []),
        ]
    )
    assert [(one.number, one.rank, one.mean) for one in found] == [
        (3, 1, 5.0),
        (1, 2, 2.0),
        (4, 2, 2.0),
        (2, None, None),
    ]


def test_a_revealed_task_can_be_made_again_from_its_seed(tmp_path: Path) -> None:
    made = cup(tmp_path)
    generate = load_attribute(str(domains()["quadruped_locomotion"].held_out))
    again = generate(2, made.secret.generator_seed)
    assert [dict(task.kwargs) for task in again] == [task.kwargs for task in made.secret.tasks]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"domain": "chess"}, "is not a known domain"),
        ({"public_task": "varied_hop"}, "is not a task"),
        ({"episodes": 0}, "not positive"),
        ({"seeds": [1, 1]}, "repeated"),
        ({"held_out": -1}, "negative"),
        ({"cpu_limit": 0.0}, "not positive"),
        ({"memory_limit_bytes": 0}, "not positive"),
        ({"run_time_limit_s": float("inf")}, "not positive and finite"),
        ({"sandbox": "strongest"}, "depends on the host"),
    ],
)
def test_wrong_terms_found_nothing(tmp_path: Path, changes: dict, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        cup(tmp_path, **changes)
    assert not (tmp_path / "cup" / "public").exists()


# --- held-out tasks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["quadruped_locomotion", "circuit_training", "web_navigation"])
def test_held_out_tasks_follow_their_seed_and_look_like_what_is_told(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import gymnasium

    from a2perf.domains.web_navigation.sites import generator

    monkeypatch.setattr(generator, "EPISODES", 100)  # the difficulty is measured less exactly, and sooner
    register_environments()
    generate = load_attribute(str(domains()[name].held_out))
    (task,), (again,), (other,) = generate(1, 7), generate(1, 7), generate(1, 8)
    assert task == again
    assert dict(task.kwargs) != dict(other.kwargs)
    kwargs = json.loads(json.dumps(dict(task.kwargs)))
    assert kwargs == dict(task.kwargs)
    secret, public = gymnasium.make(task.env_id, **kwargs), gymnasium.make(task.env_id, **dict(task.told))
    assert secret.observation_space == public.observation_space
    assert secret.action_space == public.action_space
    secret.close()
    public.close()


# --- the plan -------------------------------------------------------------------------------------------------------


def test_every_entrant_is_trained_once_a_seed_and_evaluated_on_every_task(tmp_path: Path) -> None:
    made = cup(tmp_path, seeds=[3, 5])
    entries = planned(made, allowed(write(tmp_path, "a"), write(tmp_path, "b")))
    assert len({entry.key for entry in entries}) == len(entries) == 2 * 2 * (1 + 1 + 2)
    training_runs = {entry.key: entry for entry in entries if entry.data["mode"] == "train"}
    assert len(training_runs) == 4
    for entry in entries:
        if entry.data["mode"] == "inference":
            trained = training_runs[str(entry.after)]
            assert (trained.data["submission"], trained.data["seed"]) == (entry.data["submission"], entry.data["seed"])
            flags = entry.command.evaluator_flags()
            assert f"Submission.trained_root_dir = {trained.data['root']!r}" in flags
    assert [entry.data["seed"] for entry in entries] == sorted(entry.data["seed"] for entry in entries)


def test_only_those_who_need_other_packages_get_an_environment_of_their_own(tmp_path: Path) -> None:
    made = cup(tmp_path, train=False, held_out=0)
    wanted = {
        "plain": "numpy>=1.26\n# nothing else\n",
        "other": "numpy==1.0\n",
        "absent": "no-such-thing\n",
        "bad": "==\n",
    }
    folders = tuple(write(tmp_path, name, requirements=text) for name, text in wanted.items())
    kinds = {}
    for entry in planned(made, allowed(*folders)):
        flags = list(entry.command.evaluator_flags() or ())
        kinds[entry.data["submission"]] = flags[flags.index("--python-env") + 1]
    refused = {one.place: one.refused for one in competitions.read_entrants(made).all() if one.refused}
    assert list(refused) == ["bad"]
    assert "requirements.txt" in refused["bad"]
    assert {name: kinds[name] for name in ("plain", "other", "absent")} == {
        "plain": "shared",
        "other": "isolated",
        "absent": "isolated",
    }


def test_what_would_let_an_entrant_read_the_secrets_is_refused(tmp_path: Path) -> None:
    home = write(tmp_path, "outer")
    made = competitions.create(home / "cup", terms())
    with pytest.raises(ConfigError, match="inside the submission"):
        planned(made, allowed(home))
    (tmp_path / "link").symlink_to(home)
    with pytest.raises(ConfigError, match="inside the submission"):
        planned(competitions.load(tmp_path / "link" / "cup"), allowed(home))
    with pytest.raises(ConfigError, match="are named outer"):
        planned(made, allowed(home, write(tmp_path / "x", "outer")))
    with pytest.raises(ConfigError, match="inside the competition's folder private"):
        planned(made, allowed(write(made.private, "near")))
    with pytest.raises(UserError, match="bubblewrap2"):
        planned(cup(tmp_path), Entrants((write(tmp_path / "y", "z"),), sandbox="bubblewrap2"))


# --- the page -------------------------------------------------------------------------------------------------------


def test_what_entrants_write_is_escaped() -> None:
    nasty = "<script>alert(1)</script>"
    result = TaskStanding(task="one", held_out=True, failures=[["exception", nasty]])
    page = competition_page(
        FrontPage(nasty, [(nasty, nasty)], "ab", "then", "now", [nasty], [standing(nasty, [result])])
    )
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 6


def test_the_page_names_winner_organizer_and_where_the_commitment_was_published() -> None:
    results = [
        standing("ada", [TaskStanding(task="one", held_out=True, returns=[-1.5])], rank=1, mean=-1.5),
        standing("bob", [TaskStanding(task="one", held_out=True, failures=[["bad_output", "no action"]])]),
    ]
    front = FrontPage(
        "Cup",
        [],
        "ab",
        "2026-11-20 10:00 UTC",
        "now",
        [],
        results,
        organizer="The jury",
        commitment_url="javascript:alert(1)",
    )
    page = competition_page(front)
    assert "Winner: ada, with a mean return of −1.500 over the secret tasks." in page
    assert "The jury" in page
    assert "Invalid output" in page
    assert "computed 2026-11-20 10:00 UTC, by the organizer&#39;s clock" in page or "by the organizer's clock" in page
    assert "javascript:" not in page
    tied = competition_page(
        FrontPage(
            "Cup",
            [],
            "ab",
            "",
            "",
            [],
            [
                standing(name, [TaskStanding(task="one", held_out=True, returns=[2.0])], rank=1, mean=2.0)
                for name in ("ada", "bob")
            ],
        )
    )
    assert "Tie between ada and bob" in tied


@pytest.mark.group("chromium")
def test_page_of_a_competition_is_accessible(browser: Browser, tmp_path: Path) -> None:
    ada = TaskStanding(task="one", held_out=True, returns=[-1.5])
    bob = TaskStanding(task="one", held_out=True, failures=[["timeout", "too slow"]])
    results = [
        EntrantStanding(number=1, name="ada", place="ada", sha256="", tasks=[ada], rank=1, mean=-1.5),
        EntrantStanding(number=2, name="bob", place="bob", sha256="", tasks=[bob]),
    ]
    page = tmp_path / "index.html"
    front = FrontPage("Cup", [("Sandbox", "bubblewrap")], "ab" * 32, "then", "now", ["a problem"], results, "cd" * 32)
    page.write_text(competition_page(front))
    assert problems(browser, page) == []


# --- five entrants, end to end ----------------------------------------------------------------------------------------

CHEAT = """
    import pathlib
    for place in ({secret!r}, {runs!r}):
        try:
            names = sorted(path.name for path in pathlib.Path(place).iterdir())
            print("SAW", names, [path.read_text() for path in pathlib.Path(place).rglob("*.json")])
        except OSError as error:
            print("REFUSED", type(error).__name__)
    for place in ({runs!r}, {outside!r}):
        try:
            pathlib.Path(place, "forged.json").write_text("mine")
            print("WROTE", place)
        except OSError as error:
            print("NOT WRITTEN", type(error).__name__)
"""


@pytest.fixture(scope="module")
def wheelhouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    wheels.real_base(folder)
    wheels.write_wheel(folder, "toy", "2.0")
    return folder


@pytest.fixture
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("A2PERF_CACHE_DIR", str(folder))


@pytest.mark.group("bwrap")
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("_own_cache")
def test_five_entrants_each_get_an_honest_outcome(
    tmp_path: Path, wheelhouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_FIND_LINKS", str(wheelhouse))
    folder, entries, site = tmp_path / "cup", tmp_path / "entries", tmp_path / "site"
    outside = tmp_path / "outside"
    outside.mkdir()
    status, said = run(
        "init",
        folder,
        "--domain",
        "web_navigation",
        "--held-out",
        1,
        "--episodes",
        2,
        "--set",
        "latency_steps=2",
        "--seed",
        0,
        "--no-train",
        "--set",
        "call_timeout_s=1.5",
    )
    assert status == 0
    made = competitions.load(folder)
    assert made.commitment.commitment in said
    cheat = CHEAT.format(secret=str(made.private), runs=str(made.runs), outside=str(outside))
    submissions = [
        write(entries, "good"),
        write(entries, "slow", infer="import time; time.sleep(60)"),
        write(entries, "crashing", infer="import os; os.abort()"),
        write(entries, "cheating", load=cheat, infer="return {'reward': 1e9, 'success': True}"),
        write(entries, "picky", load="import toy; assert toy.VERSION == '2.0'", requirements="toy==2.0\n"),
    ]
    chosen = [word for path in submissions for word in ("--submission", path)]
    status, said = run("run", folder, *chosen, "--workers", 2, "--json")
    runs = json.loads(said[said.index("[\n") :])
    assert status == 1
    assert len(runs) == 10
    kinds = {(one["submission"], one["split"]): one["kind"] or one["state"] for one in runs}
    for split in ("public", "held out"):
        assert {name: kind for (name, of), kind in kinds.items() if of == split} == {
            "good": "finished",
            "slow": "timeout",
            "crashing": "signal",
            "cheating": "bad_output",
            "picky": "finished",
        }

    task = made.secret.tasks[0]
    bundles = {name: place(made, name, task.name) for name in os.listdir(made.runs) if (made.runs / name).is_dir()}
    tried = (bundles["cheating"] / "logs" / "stdout.log").read_text()
    # Of the secrets there is nothing, of the runs an empty frame around its own folder, which it alone can write.
    assert tried.splitlines()[:2] == ["REFUSED FileNotFoundError", "SAW ['cheating'] []"]
    assert "NOT WRITTEN FileNotFoundError" in tried
    assert not list(tmp_path.rglob("forged.json"))
    everything = "".join(path.read_text(errors="replace") for path in made.runs.rglob("*.log"))
    assert made.secret.salt not in everything
    good = read_json(bundles["good"] / "manifest.json")
    assert len(set(good["seeds"]["episodes"])) == 2
    for name in ("slow", "picky"):
        assert read_json(bundles[name] / "manifest.json")["seeds"] == good["seeds"]
    assert good["sandbox"]["level"] == "bubblewrap"
    picky = read_json(bundles["picky"] / "manifest.json")
    assert picky["python_env"]["packages"]["toy"] == "2.0"
    assert good["python_env"]["kind"] == "shared"

    # The same command again runs nothing again: whatever ended these runs, their participants had started.
    status, said = run("run", folder, *chosen)
    started = {line.split("/")[0] for line in said.splitlines() if line.endswith(": started")}
    assert (status, started) == (1, set())

    key = tmp_path / "keys" / "organizer"
    signing.new_key(key)
    signing.sign(bundles["good"], key)
    status, said = run("publish", folder, "-o", site, "--yes", "--trusted-keys", key.parent)
    assert (status, "PROBLEM" in said) == (0, False), said
    runs = [
        one
        for board in read_json(site / "leaderboard" / "leaderboard.json")["boards"]
        for row in board["rows"]
        for one in row["entry"]["runs"]
    ]
    states = {one["run"]: one["signature"]["state"] for one in runs}
    assert [run for run, state in states.items() if state == "signed"] == [
        bundles["good"].relative_to(made.runs).as_posix()
    ]
    page = (site / "index.html").read_text()
    for words in ("good", "picky", "Timed out", "Crashed", "Invalid output", made.commitment.commitment):
        assert words in page
    order = [page.index(f">{name}</a>") for name in ("good", "picky", "cheating", "crashing", "slow")]
    assert max(order[:2]) < min(order[2:])
    assert run("verify", site / "reveal", "--commitment", made.commitment.commitment)[0] == 0
    assert len(list((site / "leaderboard" / "submissions").glob("*/report/index.html"))) == 5
    for link in [part.split('"')[0] for part in page.split('href="')[1:]]:
        assert link.startswith(("data:image", "#")) or (site / link).is_file(), link
    assert "Tie between" in page or "Winner: " in page
    assert 'href="../index.html">Competition' in (site / "leaderboard" / "index.html").read_text()

    # Who bends a result after the fact is found.
    rollouts = bundles["good"] / "metrics" / "rollouts.json"
    rollouts.write_text(rollouts.read_text().replace('"length":', '"length":1', 1))
    status, said = run("publish", folder, "-o", tmp_path / "again", "--yes")
    assert (status, "nothing was published" in said) == (1, True)
    assert "metrics/rollouts.json was changed after the run" in said
    assert not (tmp_path / "again").exists()
    status, said = run("publish", folder, "-o", tmp_path / "again", "--yes", "--despite-problems")
    assert status == 1
    assert "metrics/rollouts.json was changed after the run" in (tmp_path / "again" / "index.html").read_text()
    assert run("verify", tmp_path / "again" / "reveal")[0] == 1


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.group("bwrap")
@pytest.mark.parametrize("domain", ["circuit_training", "quadruped_locomotion"])
def test_training_reaches_the_secret_tasks_of_every_domain(tmp_path: Path, domain: str) -> None:
    folder = tmp_path / "cup"
    public = {"circuit_training": "toy_macro_stdcell", "quadruped_locomotion": "synthetic_trot"}[domain]
    run(
        "init",
        folder,
        "--domain",
        domain,
        "--task",
        public,
        "--held-out",
        2,
        "--episodes",
        1,
        "--set",
        "latency_steps=2",
        "--seed",
        0,
        "--seed",
        1,
    )
    home = write(
        tmp_path,
        "trained",
        load="import os, pathlib; print(pathlib.Path(os.environ['ROOT_DIR'], 'w').read_text())",
        infer="if isinstance(observation, dict): return int(observation['mask'].argmax())",
    )
    (home / "train.py").write_text(
        "import os, pathlib\ndef train():\n"
        "    pathlib.Path(os.environ['A2PERF_ARTIFACTS'], 'w').write_text('weights of ' + os.environ['SEED'])\n"
    )
    status, said = run("run", folder, "--submission", home, "--workers", 2)
    assert status == 0, said
    made = competitions.load(folder)
    for seed in (0, 1):
        logs = [
            (place(made, "trained", task, seed) / "logs" / "stdout.log").read_text()
            for task in (public, *(task.name for task in made.secret.tasks))
        ]
        assert len(logs) == 3
        assert logs[0].startswith("weights of ")
        assert len(set(logs)) == 1
    status, said = run("publish", folder, "-o", tmp_path / "site", "--yes")
    assert status == 0, said
