"""A competition under attack: by an entrant that looks for the secrets, by one whose folder harms, by its organizer."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import a2perf_competition as competitions
from a2perf.records import Manifest
from a2perf.runs.bundles.bundle import write_manifest
from a2perf.runs.bundles.inventory import read_manifest, record_files
from a2perf.runs.pack import pack
from a2perf.runs.packed.packed_archive import unpack
from a2perf.storage import read_json, read_record, write_json, write_record
from a2perf_competition import folder_check
from a2perf_competition.draw import nonce_sha256, read_draw
from a2perf_competition.entrants import EntrantList
from a2perf_competition.records import Competition
from packages.competition.tests.test_competition import allowed, cup, place, run, write
from tests.deep_folders import nest
from tests.killed_python import kill_first_starts

SPY = """
    import os, pathlib
    known = [pathlib.Path({cup!r}), pathlib.Path({link!r}), pathlib.Path(os.environ["A2PERF_ARTIFACTS"])]
    known += [pathlib.Path(value) for value in os.environ.values() if value.startswith("/") and len(value) < 500]
    places = {{above for one in known for above in (one, *one.parents)}} - {{pathlib.Path("/")}}
    places |= {{one / name for one in known for name in ("loot", "private", "../private", "../../private", "runs")}}
    print("VARIABLES", sorted(os.environ.items()))
    for one in sorted(places):
        for name in ("secret.json", "private/secret.json", "private/seed_secret", "tasks", "inference.py", "terms.json",
                     "public/entrants.json", "queue.sqlite", "runs/queue.sqlite"):
            try:
                file = one / name
                print("LOOT", file, os.listdir(file) if file.is_dir() else file.read_text()[:2000])
            except OSError:
                pass
    for folder, names, files in os.walk({cup!r}):
        print("CUP", folder, sorted(names), sorted(files))
    print("MOUNTS", open("/proc/self/mountinfo").read())
"""


@contextlib.contextmanager
def _published(folder: Path) -> Iterator[tuple[Competition, Path, str]]:
    """Runs a small cup at the level bubblewrap and publishes it."""
    entries, made_in = folder / "entries", folder / "cup"
    status, _ = run(
        "init",
        made_in,
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
    )
    assert status == 0
    (folder / "link").symlink_to(made_in)
    made = competitions.load(made_in)
    spy = write(entries, "spy", load=SPY.format(cup=str(made_in), link=str(folder / "link")))
    (spy / "loot").symlink_to(made.private)
    (spy / "cup").symlink_to("../../cup")
    broken = write(entries, "broken")
    (broken / "requirements.txt").unlink()
    os.mkfifo(broken / "requirements.txt")
    submissions = [word for name in ("ada", "spy", "broken") for word in ("--submission", str(entries / name))]
    nonce = run("nonce", write(entries, "ada"))[1].strip()
    assert run("run", made_in, *submissions, "--close-only")[0] == 0
    status, said = run("run", made_in, *submissions, "--workers", 2, "--nonce", nonce)
    assert status == 1, said
    status, said = run("publish", made_in, "-o", folder / "site", "--yes")
    assert (status, "PROBLEM" in said) == (0, False), said
    yield competitions.load(made_in), folder / "site" / "reveal", said


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Competition, Path, str]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("A2PERF_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        with _published(tmp_path_factory.mktemp("played")) as found:
            yield found


@pytest.fixture
def site(played: tuple[Competition, Path, str], tmp_path: Path) -> Path:
    """A copy of what was published, to be changed."""
    shutil.copytree(played[1], tmp_path / "reveal")
    return tmp_path / "reveal"


def bundle_of(played: tuple[Competition, Path, str], site: Path, *, secret: bool = True) -> Path:
    """Returns a published bundle of ada's."""
    made = played[0]
    task = made.secret.tasks[0].name if secret else made.terms.public_task
    return site / "runs" / place(made, "ada", task).relative_to(made.runs)


def reseal(bundle: Path, **changes: object) -> None:
    """Writes a manifest that fits the changed bundle, as an organizer who forges one would."""
    manifest = read_manifest(bundle)
    kept = {name: item for name, item in manifest.inventory.items() if name.startswith(("artifacts", "logs", "media"))}
    hashes = {name: digest for name, digest in manifest.files.items() if name in kept}
    for name, value in changes.items():
        setattr(manifest, name, value)
    record_files(bundle, manifest)
    manifest.inventory |= kept
    manifest.files |= hashes
    write_manifest(bundle, manifest)


# --- an entrant that looks for the secrets ------------------------------------------------------------------------


@pytest.mark.group("bwrap")
@pytest.mark.timeout(900)
def test_a_packed_competition_is_verified_and_a_change_in_it_is_found(
    played: tuple[Competition, Path, str], tmp_path: Path
) -> None:
    made, reveal, _ = played
    packed = pack([reveal], tmp_path / "published.zip")
    status, said = run("verify", packed, "--commitment", made.commitment.commitment)
    assert (status, said) == run("verify", reveal, "--commitment", made.commitment.commitment)
    assert status == 0
    (folder,) = unpack(packed, tmp_path)
    changed = next(folder.glob("runs/ada/**/rollouts.json"))
    changed.write_text(changed.read_text().replace('"length":', '"length":1', 1))
    (folder / "runs" / "eve").mkdir()
    status, said = run("verify", pack([folder], tmp_path / "changed.zip"))
    assert status == 1
    assert "metrics/rollouts.json was changed after the run" in said
    assert "eve is not a listed entrant" in said


def test_an_entrant_sees_nothing_of_the_competition(played: tuple[Competition, Path, str], noted) -> None:
    made = played[0]
    (task,) = made.secret.tasks
    listed = competitions.read_entrants(made)
    secret = read_draw(made, listed).seed_secret(made.secret, listed).hex()
    for name in (task.name, made.terms.public_task):
        bundle = place(made, "spy", name)
        seen = (bundle / "logs" / "stdout.log").read_text()
        assert "VARIABLES" in seen
        loot = [line for line in seen.splitlines() if line.startswith("LOOT")]
        own = str(made.folder.parent / "entries" / "spy")
        assert [line for line in loot if not line.startswith(f"LOOT {own}/inference.py ")] == []
        for line in (line for line in seen.splitlines() if line.startswith("CUP")):
            # an empty frame around the folder of its own artifacts
            folder = line.split(" ", 2)[1]
            assert str(bundle / "artifacts").startswith(folder), line
            assert line.endswith(" []"), line
        seeds = read_manifest(bundle).seeds
        words = [made.secret.salt, secret, task.name, str(made.secret.generator_seed), *map(str, seeds["episodes"])]
        words += seeds["keys"].values()
        words += [entrant.place for entrant in competitions.read_entrants(made).all() if entrant.place != "spy"]
        variables = next(line for line in seen.splitlines() if line.startswith("VARIABLES"))
        mounts = seen[seen.index("MOUNTS") :]
        assert [word for word in words[:-2] if word in seen] == []
        assert [word for word in words[-2:] if f"/{word}" in variables + mounts] == []
    noted("an entrant looks for the secrets of its competition", "nothing is there", ["bubblewrap"])


def test_a_level_that_hides_nothing_is_refused(noted, tmp_path: Path) -> None:
    made = cup(tmp_path)
    for level in ("none", "process"):
        with pytest.raises(Exception, match="could read the secrets"):
            competitions.enter_all(made, competitions.Entrants((write(tmp_path / level, "ada"),), sandbox=level))
        outcome = "refused unless allowed, and published then"
        noted("an entrant looks for the secrets of its competition", outcome, [level])


# --- an entrant whose folder harms the others -------------------------------------------------------------------------


def _fifo(home: Path) -> None:
    (home / "requirements.txt").unlink()
    os.mkfifo(home / "requirements.txt")


def _endless(home: Path) -> None:
    (home / "requirements.txt").unlink()
    (home / "requirements.txt").symlink_to("/dev/zero")


def _sized(name: str, size: int) -> Callable[[Path], None]:
    def write(home: Path) -> None:
        (home / name).touch()
        os.truncate(home / name, size)

    return write


HARMS: dict[str, Callable[[Path], object]] = {
    "fifo": _fifo,
    "endless": _endless,
    "kernel memory": lambda home: (home / "requirements.txt").write_text("-r /proc/kcore\n"),
    "all of proc": lambda home: (home / "requirements.txt").write_text("/proc\n"),
    "huge requirements": _sized("requirements.txt", 1 << 40),
    "sparse file": _sized("weights.bin", 1 << 43),
    "deep": lambda home: nest(home, "d" * 200, 300),
    "socket": lambda home: os.mknod(home / "socket", 0o140600),
    "a link to everything": lambda home: (shutil.rmtree(home), home.symlink_to("/")),
    "a link to itself": lambda home: (shutil.rmtree(home), home.symlink_to(home.name)),
    "a file": lambda home: (shutil.rmtree(home), home.touch()),
}


def test_the_problem_of_one_folder_is_that_entrants_failure(tmp_path: Path, noted) -> None:
    made = cup(tmp_path, train=False, held_out=0)
    folders = [write(tmp_path / "entries", "ada"), *(write(tmp_path / "entries", name) for name in HARMS)]
    for folder in folders[1:]:
        HARMS[folder.name](folder)
    entered = competitions.enter_all(made, allowed(*folders))
    refused = {entrant.name: entrant.refused for entrant, _ in entered if entrant.refused}
    assert sorted(refused) == sorted(HARMS)
    assert all(str(tmp_path) not in why and why.isprintable() for why in refused.values())
    assert [entrant.place for entrant, _ in entered if not entrant.refused] == ["ada"]
    listed = competitions.read_entrants(made)
    assert len(listed.all()) == 1 + len(HARMS)
    assert listed.problems(made.commitment.commitment) == []
    noted("an entrant's folder harms a competition", "its own failure, contract")


@pytest.mark.parametrize(
    "name", ["attic", "queue.sqlite", "queue.sqlite-wal", "-rf", ".hidden", "entrant-1", "a b", "ä"]
)
def test_no_name_hides_an_entrant_or_breaks_the_runs(tmp_path: Path, name: str) -> None:
    made = cup(tmp_path, train=False, held_out=0)
    ((entrant, _),) = competitions.enter_all(made, allowed(write(tmp_path / "entries", name)))
    assert (entrant.name, entrant.place, entrant.refused) == (name, "entrant-1", "")


@pytest.mark.parametrize(("kills", "refused"), [(2, ""), (3, "reading its folder ended with SIGKILL")])
def test_a_folder_whose_reader_is_killed_from_outside_is_read_again(
    kills: int, refused: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = kill_first_starts(monkeypatch, tmp_path, kills)
    found = folder_check.examine(write(tmp_path, "ada"))
    assert found.refused.startswith(refused)
    assert bool(found.sha256) == (not refused)
    assert len(starts.read_text().splitlines()) == 3


def test_an_admission_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_check, "WALL_S", 0.0)
    assert "could not be read within" in folder_check.examine(write(tmp_path, "slow")).refused


# --- an organizer who cheats -----------------------------------------------------------------------------------------


def _changed_file(name: str, old: str, new: str) -> Callable[[Path, Path], None]:
    def change(site: Path, bundle: Path) -> None:
        text = (site / name).read_text()
        assert old in text
        (site / name).write_text(text.replace(old, new, 1))

    return change


def _better_return(site: Path, bundle: Path) -> None:
    rollouts = read_json(bundle / "metrics" / "rollouts.json")
    for episode in rollouts["episodes"]:
        episode["episode_return"] = 590.0
    write_json(bundle / "metrics" / "rollouts.json", rollouts)


def _forged_return(site: Path, bundle: Path) -> None:
    _better_return(site, bundle)
    reseal(bundle)


def _other_configuration(bundle: Path, change: Callable[[str], str]) -> None:
    text = change((bundle / "operative_config.gin").read_text())
    (bundle / "operative_config.gin").write_text(text)
    reseal(bundle, config_sha256=hashlib.sha256(text.encode()).hexdigest())


def _edited_configuration(site: Path, bundle: Path) -> None:
    _other_configuration(bundle, lambda text: text.replace("call_timeout_s = 10.0", "call_timeout_s = 99.0"))


def _added_setting(site: Path, bundle: Path) -> None:
    _other_configuration(bundle, lambda text: text + "Submission.readable_paths = ['/cup/private']\n")


def _changed_manifest(**changes: object) -> Callable[[Path, Path], None]:
    return lambda site, bundle: reseal(bundle, **changes)


def _other_seed(site: Path, bundle: Path) -> None:
    reseal(bundle, seeds={**read_manifest(bundle).seeds, "participant": 7})


def _other_code(site: Path, bundle: Path) -> None:
    submission = read_record(bundle / "manifest.json", Manifest).submission
    submission.sha256 = "0" * 64
    reseal(bundle, submission=submission)


def _linked_results(site: Path, bundle: Path) -> None:
    shutil.copytree(bundle / "metrics", site.parent / "forged")
    (bundle / "metrics" / "tasks").symlink_to(site.parent / "forged")


def _linked_bundle(site: Path, bundle: Path) -> None:
    shutil.move(bundle, site.parent / "elsewhere")
    bundle.symlink_to(site.parent / "elsewhere")


def _hidden_entrant(name: str) -> Callable[[Path, Path], None]:
    def hide(site: Path, bundle: Path) -> None:
        shutil.copytree(site / "runs" / "ada", site / "runs" / name)

    return hide


def _second_attempt(site: Path, bundle: Path) -> None:
    shutil.copytree(bundle, bundle.parent / "attic" / f"{bundle.name}-20260102T030405.678901")


def _archive_under_other_name(site: Path, bundle: Path) -> None:
    shutil.copytree(bundle, bundle.parent / "attic" / "old")


def _rewritten_list(site: Path, bundle: Path) -> None:
    """Drops an entrant and makes the list consistent again: only the hash that was published tells."""
    listed = read_record(site / "entrants.json", EntrantList)
    listed.rounds[0].entrants = [entrant for entrant in listed.all() if entrant.name != "spy"]
    for number, entrant in enumerate(listed.rounds[0].entrants, start=1):
        entrant.number = number
    listed.rounds[0].sha256 = listed.rounds[0].expected_sha256(listed.commitment)
    listed.sha256 = listed.expected_sha256()
    write_record(site / "entrants.json", listed)
    shutil.rmtree(site / "runs" / "spy")


def _other_memory(site: Path, bundle: Path) -> None:
    sandbox = read_manifest(bundle).sandbox
    assert sandbox is not None
    sandbox.limits["memory_bytes"] *= 4
    reseal(bundle, sandbox=sandbox)


def _outcomes(content: bytes) -> Callable[[Path, Path], None]:
    return lambda site, bundle: (site / "outcomes.json").write_bytes(content)  # type: ignore[return-value]


def _withheld_nonce(site: Path, bundle: Path) -> None:
    write_json(site / "draw.json", {**read_json(site / "draw.json"), "nonces": []})


def _foreign_nonce(site: Path, bundle: Path) -> None:
    drawn = read_json(site / "draw.json")
    write_json(site / "draw.json", {**drawn, "nonces": [*drawn["nonces"], "zz"]})


CHEATS: dict[str, tuple[Callable[[Path, Path], None], str]] = {
    "terms": (_changed_file("terms.json", '"episodes": 2', '"episodes": 1'), "was published first"),
    "gin file": (_changed_file("secret.gin", "call_timeout_s = 10.0", "call_timeout_s = 99.0"), "was published first"),
    "code": (_changed_file("evaluator.json", '"python": "CPython', '"python": "PyPy'), "was published first"),
    "another gin file": (lambda site, bundle: (site / "x.gin").touch(), "was published first"),  # type: ignore[dict-item]
    "a seed file": (lambda site, bundle: (site / "public.seeds").touch(), "is not part of a published competition"),  # type: ignore[dict-item]
    "summary": (_changed_file("results.json", '"rank": 1', '"rank": 2'), "results.json is not what the bundles give"),
    "outcome": (_changed_file("outcomes.json", '"state": "finished"', '"state": "failed"'), "recorded outcome"),
    "entrant's hash": (_changed_file("entrants.json", '"name": "ada"', '"name": "adb"'), "changed after it was sealed"),
    "dropped entrant": (_rewritten_list, "was published"),
    "opened list": (
        _changed_file("entrants.json", '"closed_at": "2', '"closed_at": "3'),
        "changed after it was sealed",
    ),
    "returns": (_better_return, "metrics/rollouts.json was changed after the run"),
    "returns, resealed": (_forged_return, "rollouts.json and journal.jsonl hold different episodes"),
    "configuration, resealed": (_edited_configuration, "Submission.call_timeout_s was 99.0, committed 10.0"),
    "a further setting, resealed": (_added_setting, "Submission.readable_paths was set"),
    "seeds, resealed": (_changed_manifest(seeds={"episodes": [1, 2]}), "its seeds.episodes is [1, 2]"),
    "the policy's seed, resealed": (_other_seed, "its seeds.participant is 7"),
    "root seed, resealed": (_changed_manifest(root_seed=7), "its root seed is 7, committed 0"),
    "arguments, resealed": (_changed_manifest(participant_args={"x": "1"}), "its participant arguments is"),
    "version, resealed": (_changed_manifest(a2perf_sha256="0" * 64), "its code of a2perf is"),
    "task, resealed": (_changed_manifest(env_kwargs={"num_websites": 9}), "its arguments of the environment is"),
    "submission, resealed": (_other_code, "its hash of the submission is"),
    "a flag, resealed": (
        _changed_manifest(command=["a2perf", "--memory-limit-bytes", "1"]),
        "which the competition does",
    ),
    "a larger limit, resealed": (_other_memory, "its limit memory_bytes was 17179869184.0, committed 4294967296"),
    "a withheld nonce": (_withheld_nonce, "its seeds.keys is"),
    "a nonce of nobody": (_foreign_nonce, "draw.json holds a nonce that no entrant committed"),
    "odd outcomes": (_outcomes(b'[{"entrant": 1}]'), "outcomes.json is not a list of outcomes"),
    "nested outcomes": (_outcomes(b"[" * 100_000 + b"]" * 100_000), "outcomes.json"),
    "endless outcomes": (_outcomes(b"[" + b"[]," * 4_000_000 + b"[]]"), "outcomes.json: holds more than"),
    "a link to results": (_linked_results, "a link that is not in the manifest"),
    "a linked bundle": (_linked_bundle, "is not part of the run"),
    "a missing run": (lambda site, bundle: shutil.rmtree(bundle), "it is missing, and no failure is recorded"),
    "an entrant named attic": (_hidden_entrant("attic"), "attic is not a listed entrant"),
    "a hidden entrant": (_hidden_entrant(".ada"), ".ada is not a listed entrant"),
    "a run twice": (_second_attempt, "it was run again though it had finished"),
    "an odd archive": (_archive_under_other_name, "is not an earlier attempt"),
    "a file beside": (lambda site, bundle: (site / "runs" / "note").touch(), "is not a listed entrant"),  # type: ignore[dict-item]
}


@pytest.mark.group("bwrap")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("cheat", CHEATS)
def test_an_organizer_who_cheats_fails_verify(
    played: tuple[Competition, Path, str], site: Path, cheat: str, noted
) -> None:
    made = played[0]
    hashes = ("--commitment", made.commitment.commitment, "--entrants", competitions.read_entrants(made).sha256)
    change, words = CHEATS[cheat]
    change(site, bundle_of(played, site))
    status, said = run("verify", site, *hashes)
    assert status == 1, said
    assert words in said, said
    noted("an organizer changes terms, runs or entrants", "verify names it")


@pytest.mark.group("bwrap")
@pytest.mark.timeout(900)
def test_verify_names_a_machine_and_a_level_that_differ(played: tuple[Competition, Path, str], site: Path) -> None:
    assert "differs between runs" not in run("verify", site)[1]
    bundle = bundle_of(played, site)
    sandbox = read_manifest(bundle).sandbox
    assert sandbox is not None
    sandbox.missing.append("using all processors")
    reseal(bundle, host={**read_manifest(bundle).host, "hostname": "faster"}, sandbox=sandbox)
    said = run("verify", site)[1]
    assert "the machine differs between runs" in said
    assert "faster" in said
    assert "the missing confinement differs between runs: nothing (ada, spy), using all processors (ada)" in said


@pytest.mark.timeout(900)
def test_the_order_of_entrants_and_folders_of_accomplices_choose_no_seeds(tmp_path: Path, noted) -> None:
    """Six orders of one list, and rounds of one entry each; then folders of an accomplice against an honest nonce."""
    names = ("ada", "eve", "kim")
    entries = {name: write(tmp_path / "entries", name) for name in names}
    home = cup(tmp_path, train=False, held_out=0).folder
    nonce = run("nonce", entries["ada"])[1].strip()
    secrets, places = set(), set()
    for number, order in enumerate(itertools.permutations(names)):
        copy = tmp_path / f"copy{number}"
        shutil.copytree(home, copy)
        made = competitions.load(copy)
        if number % 2:
            competitions.enter_all(made, allowed(*(entries[name] for name in order)))
        else:
            for name in order:
                competitions.enter_all(made, allowed(entries[name]))
        listed, drawn = competitions.close(made), competitions.draw_seeds(made, [nonce])
        secrets.add(drawn.seed_secret(made.secret, competitions.read_entrants(made)))
        places.add(tuple(sorted(str(place(made, name, made.terms.public_task)).split("/runs/")[1] for name in names)))
        assert listed.closed_at
    assert (len(secrets), len(places)) == (1, 1)
    # Before the reveal nobody but ada knows her nonce, and the draw with it differs from every draw without it.
    made = competitions.load(home)
    tries = []
    for share in range(3):
        (entries["eve"] / "share").write_text(str(share))
        shutil.copytree(home, tmp_path / f"try{share}")
        again = competitions.load(tmp_path / f"try{share}")
        competitions.enter_all(again, allowed(*entries.values()))
        listed = competitions.close(again)
        folders = [entrant.sha256 for entrant in listed.all()]
        tries.append(again.secret.seed_secret(folders, {nonce_sha256(nonce): ""}))
        drawn = competitions.draw_seeds(again, [nonce])
        assert drawn.seed_secret(again.secret, listed) not in tries
    noted("an organizer chooses seeds by the order of a list, or with an accomplice", "one draw, after the nonces")


LEARNER = """
import os, pathlib

def train():
    pathlib.Path(os.environ["A2PERF_ARTIFACTS"], "weights").write_bytes(os.urandom(8))
"""


@pytest.mark.timeout(900)
def test_neither_seeds_nor_weights_can_be_chosen_under_the_published_hashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noted
) -> None:
    """Random policies run again in a copy of the competition, and an evaluation of other weights."""
    home = tmp_path / "cup"
    mask = "return int(observation['mask'].argmax())"
    ada = write(tmp_path / "entries", "ada", infer=mask)
    (ada / "train.py").write_text(LEARNER)
    entrants = ("--submission", ada, "--sandbox", "process", "--allow-weaker")
    status, _ = run(
        "init",
        home,
        "--domain",
        "circuit_training",
        "--task",
        "toy_macro_stdcell",
        "--held-out",
        0,
        "--episodes",
        1,
        "--set",
        "latency_steps=2",
        "--seed",
        0,
    )
    assert status == 0
    assert run("run", home, *entrants, "--close-only")[0] == 0
    made, copy = competitions.load(home), tmp_path / "copy"
    listed = competitions.read_entrants(made).sha256
    shutil.copytree(home, copy)
    status, said = run("run", home, *entrants)
    assert status == 0, said

    monkeypatch.setenv("A2PERF_SEED_SECRET_FILE", str(tmp_path / "fresh"))
    assert run("run", copy, *entrants)[0] == 0
    for mode in ("train", "inference"):
        first = place(made, "ada", made.terms.public_task, mode=mode)
        again = read_manifest(copy / first.relative_to(home))
        assert again.seeds == read_manifest(first).seeds
    (copy / "public" / "entrants.json").unlink()
    nobody = write(tmp_path / "entries", "nobody")
    assert run("run", copy, *entrants, "--submission", nobody, "--close-only")[0] == 0
    assert competitions.read_entrants(competitions.load(copy)).sha256 != listed
    assert "seeds.keys" in run("publish", copy, "-o", tmp_path / "none", "--yes")[1]

    weights = place(made, "ada", made.terms.public_task, mode="train") / "artifacts" / "weights"
    kept = weights.read_bytes()
    weights.write_bytes(b"better")
    shutil.rmtree(first)
    (made.runs / "queue.sqlite").unlink()
    assert run("run", home, *entrants)[0] == 0
    weights.write_bytes(kept)
    status, said = run("publish", home, "-o", tmp_path / "site", "--yes", "--despite-problems")
    assert (status, said.count("PROBLEM")) == (1, 1), said
    status, said = run("verify", tmp_path / "site" / "reveal", "--entrants", listed)
    assert (status, said.count("PROBLEM"), "it loaded the artifacts sha256:" in said) == (1, 1, True), said
    outcome = "verify names them; a forgery of all files is found by a rerun"
    noted("an organizer chooses seeds, or replaces weights", outcome)


@pytest.mark.group("bwrap")
@pytest.mark.timeout(900)
def test_what_was_published_verifies_and_lists_everybody(played: tuple[Competition, Path, str], site: Path) -> None:
    made = played[0]
    hashes = ("--commitment", made.commitment.commitment, "--entrants", competitions.read_entrants(made).sha256)
    status, said = run("verify", site, *hashes)
    assert status == 0, said
    assert "SUCCESS: all files match the commitment\n" in said
    results = read_json(site / "results.json")["entrants"]
    assert {one["place"]: one["rank"] is not None for one in results} == {"ada": True, "spy": True, "broken": False}
    assert [one["tasks"][0]["failures"][0][0] for one in results if one["place"] == "broken"] == ["contract"]
    assert run("verify", site.parent / "reveal")[0] == 0
    assert run("verify", site, "--commitment", "0" * 64)[0] == 1
    assert run("verify", site, "--entrants", "0" * 64)[0] == 1
    everything = "".join(path.read_text(errors="replace") for path in site.rglob("*") if path.is_file())
    assert "LOOT" not in everything  # what entrants print and leave is theirs
    assert json.loads((site / "entrants.json").read_text())["closed_at"]
