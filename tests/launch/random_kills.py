"""Kills processes of training, inference, submit and competition commands at random and checks what is left.

``python -m tests.launch.random_kills --minutes 60 --seed 1``: each round starts one documented command, kills processes
of its tree with SIGKILL at random moments, gives the same command again until it ends, and compares the results with
those of an undisturbed reference. ``docs/reference/experiments.md`` lists the failures that need a flag. Exit status 1
if anything is lost, counted twice, left over or wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil

from a2perf.runs.bundles.attempts import OUT_OF_REACH
from a2perf.sandbox import available_levels, strongest_level
from a2perf.sandbox.limits import oom_kills
from a2perf.submission.evaluator.seed_secret import VARIABLE
from tests.commands import run_command
from tests.launch import kill_checks
from tests.launch.kill_checks import CHILD, EVALUATOR, LAUNCHER, PARTICIPANT, VICTIMS, Findings, Ledger, members
from tests.launch.kill_forms import FORMS, KINDS, Form, found_competition, write_place
from tests.waiting import Child

MARKER = "A2PERF_RANDOM_KILLS"
MOST_COMMANDS = 12
COMMAND_TIMEOUT_S = 400.0
TREE = "whole tree"


@dataclasses.dataclass
class Round:
    """One command, killed and repeated until it ended.

    Attributes:
        number: from 1 on.
        form: the command.
        level: the sandbox of its participant.
        killed: kinds of the processes that were killed; ``"whole tree"`` for all at once.
        statuses: exit status of each command given.
        findings: what is wrong.
        wall_s: how long it took.
    """

    number: int
    form: Form
    level: str
    killed: list[str] = dataclasses.field(default_factory=list)
    statuses: list[int] = dataclasses.field(default_factory=list)
    findings: Findings = dataclasses.field(default_factory=Findings)
    wall_s: float = 0.0

    def line(self) -> str:
        """Returns the round in one line, and what is wrong below it."""
        good = "ok" if not self.findings.lines() else "WRONG"
        kills = ", ".join(self.killed) or "nobody in time"
        text = (
            f"{self.number:>4}  {self.form.kind}/{self.form.name} at {self.level}: killed {kills}; status "
            f"{' '.join(map(str, self.statuses))}; {self.findings.resumed} resumed; {self.wall_s:.0f} s: {good}"
        )
        return "\n".join([text, *(f"      {line}" for line in self.findings.lines())])


class Killer:
    """Runs rounds in a folder.

    Args:
        base: folder of everything; the caller removes it.
        chance: source of every draw.
    """

    def __init__(self, base: Path, chance: random.Random) -> None:
        self._base, self._chance = base, chance
        self._references: dict[Form, tuple[dict[str, Any], float]] = {}
        self._levels = [level for level in ("bubblewrap", "process") if level in available_levels()]
        self._environment = {**os.environ, VARIABLE: str(base / "seed_secret")}
        self._cup = base / "cup"
        found_competition(self._cup, self._environment)

    def round(self, number: int, kind: str) -> Round:
        """Runs one round of a kind; the folder of one in which nothing is wrong is removed."""
        form = self._chance.choice([form for form in FORMS if form.kind == kind])
        level = strongest_level()
        if form.takes_level and self._chance.random() < 0.2:
            level = self._levels[-1]
        reference, usual_s = self._reference(form)
        place = self._base / f"round_{number}"
        write_place(place, form, self._cup)
        done = Round(number, form, level)
        ledger = Ledger(place, form)
        started = time.monotonic()
        self._until_it_ends(done, ledger, usual_s)
        failed_for_good = done.statuses[-1] == 1 and form.retry_failed is None
        kill_checks.check_results(ledger, reference, done.findings, may_fail=failed_for_good)
        done.findings.left += kill_checks.leftovers(ledger)
        if kind == "competition" and not done.findings.lines():
            self._publish(place, done.findings)
        done.wall_s = time.monotonic() - started
        if not done.findings.lines():
            shutil.rmtree(place)
        return done

    def _reference(self, form: Form) -> tuple[dict[str, Any], float]:
        if form not in self._references:
            place = self._base / f"reference_{len(self._references)}"
            write_place(place, form, self._cup)
            started = time.monotonic()
            process = self._start(form, place, strongest_level())
            if process.wait(COMMAND_TIMEOUT_S) != 0:
                raise SystemExit(f"{form} fails undisturbed:\n{(place / 'output.log').read_text()}")
            self._references[form] = form.results(place), time.monotonic() - started
        return self._references[form]

    def _start(self, form: Form, place: Path, level: str, *wish: str) -> subprocess.Popen[bytes]:
        environment = {**self._environment, "TMPDIR": str(place / "tmp"), MARKER: str(place)}
        with (place / "output.log").open("ab") as log:
            return Child(
                [*form.argv(place, level), *wish],
                cwd=place,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _until_it_ends(self, done: Round, ledger: Ledger, usual_s: float) -> None:
        """Gives the command, with kills in the first ones, until nothing is left to do."""
        form, wish = done.form, ()
        killing = self._chance.randint(1, 3)
        for count in range(MOST_COMMANDS):
            ooms = oom_kills()
            process = self._start(form, ledger.place, done.level, *wish)
            if count < killing:
                done.killed += self._kill(process, ledger, usual_s)
            try:
                status = process.wait(COMMAND_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                done.findings.wrong.append(f"the command runs for more than {COMMAND_TIMEOUT_S:g} s")
                status = self._end(process)
            done.statuses.append(status)
            ledger.note()
            if problem := unexpected(done, status, oom_killed=ooms != oom_kills()):
                done.findings.wrong.append(problem)
            if status == 0 or (status == 1 and form.retry_failed is None):
                return
            wish = _wish(form, status)
        done.findings.wrong.append(f"{MOST_COMMANDS} commands did not finish it")

    def _kill(self, process: subprocess.Popen[bytes], ledger: Ledger, usual_s: float) -> Iterator[str]:
        """Kills random processes of a command's tree, yielding what they were."""
        chance = self._chance
        style = chance.choices(("one", "some", "tree"), (6, 2, 2))[0]
        _wait(process, chance.uniform(0, 1.1 * usual_s))
        for _ in range(chance.randint(2, 4) if style == "some" else 1):
            tree = members(process.pid) if process.poll() is None else []
            if not tree:
                return
            ledger.processes.update(one for one, _ in tree)
            if style == "tree":
                chance.shuffle(tree)
                for victim, _ in tree:
                    _sigkill(victim)
                yield TREE
                return
            kind = chance.choice(sorted({kind for _, kind in tree}))
            if _sigkill(chance.choice([one for one, its in tree if its == kind])):
                yield kind
            _wait(process, chance.uniform(0, 1.0))

    def _end(self, process: subprocess.Popen[bytes]) -> int:
        for victim, _ in members(process.pid):
            _sigkill(victim)
        return process.wait(300)

    def _publish(self, place: Path, findings: Findings) -> None:
        """Publishes a competition and lets its verifier recompute the result."""
        for words in (["publish", "cup", "--yes", "-o", "site"], ["verify", "site"]):
            argv = [sys.executable, "-m", "a2perf", "competition", *words]
            environment = {**self._environment, "TMPDIR": str(place / "tmp")}
            done = run_command(argv, place, env=environment)
            if done.returncode != 0:
                findings.wrong.append(f"competition {words[0]}: {done.stdout[-500:]}{done.stderr[-500:]}")
                return


def unexpected(done: Round, status: int, *, oom_killed: bool) -> str:
    """Returns why an exit status is not the documented one, or nothing."""
    killed = set(done.killed)
    everybody = TREE in killed
    if status == 0:
        return ""
    if status == -signal.SIGKILL:
        return "" if everybody or LAUNCHER in killed else "the launcher died by itself"
    if status == 1:
        return "" if everybody or killed & PARTICIPANT else "a participant failed that nobody killed"
    if status == 3:
        reachable = done.form.single or done.level not in OUT_OF_REACH
        early = done.form.single and killed & PARTICIPANT  # before its first instruction; an experiment repeats it
        known = oom_killed or (reachable and EVALUATOR in killed) or early or everybody or CHILD in killed
        return "" if known else "the infrastructure failed for good"
    return f"status {status}"


def _wish(form: Form, status: int) -> tuple[str, ...]:
    if status == 1 and form.retry_failed:
        return (form.retry_failed,)
    return ("--retry=infrastructure",) if status == 3 and not form.single else ()


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)


def _sigkill(process: psutil.Process) -> bool:
    try:
        process.kill()
    except psutil.Error:
        return False
    return True


def table(rounds: Sequence[Round], wall_s: float) -> dict[str, Any]:
    """Returns the closing counts as a JSON object."""
    victims = {kind: Counter(one for done in rounds if done.form.kind == kind for one in done.killed) for kind in KINDS}
    classes = {"lost": "lost", "twice": "twice", "left over": "left", "wrong": "wrong"}
    return {
        "rounds": dict(Counter(done.form.kind for done in rounds)),
        "kills": {kind: {one: counts[one] for one in (*VICTIMS, TREE)} for kind, counts in victims.items()},
        "commands": sum(len(done.statuses) for done in rounds),
        "resumed": sum(done.findings.resumed for done in rounds),
        **{name: sum(len(getattr(done.findings, key)) for done in rounds) for name, key in classes.items()},
        "wall_s": round(wall_s),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs rounds until the time is over, or so many."""
    parser = argparse.ArgumentParser(prog="python -m tests.launch.random_kills", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0, help="when no further round begins (60)")
    parser.add_argument("--rounds", type=int, help="so many rounds instead of a time")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="of commands; all by default")
    parser.add_argument("--seed", type=int, default=1, help="of every draw (1); the moments depend on the machine too")
    given = parser.parse_args(arguments)
    chance = random.Random(given.seed)
    base = Path(tempfile.mkdtemp(prefix="a2perf-random-kills-"))
    rounds: list[Round] = []
    started = time.monotonic()
    try:
        killer = Killer(base, chance)
        while len(rounds) < given.rounds if given.rounds else time.monotonic() - started < 60 * given.minutes:
            if len(rounds) % len(given.kinds) == 0:
                deck = chance.sample(given.kinds, len(given.kinds))
            rounds.append(killer.round(len(rounds) + 1, deck.pop()))
            print(rounds[-1].line(), file=sys.stderr, flush=True)
    finally:
        if all(not done.findings.lines() for done in rounds):
            shutil.rmtree(base, ignore_errors=True)
        else:
            print(f"the folders of the rounds with findings are in {base}", file=sys.stderr)
    summary = table(rounds, time.monotonic() - started)
    print(json.dumps(summary, indent=2))
    return int(any(summary[name] for name in ("lost", "twice", "left over", "wrong")))


if __name__ == "__main__":
    sys.exit(main())
