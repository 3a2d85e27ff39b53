"""The checks of an audit: what repeats, what an episode may depend on, and which policies may win."""

from __future__ import annotations

import contextlib
import datetime
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from unittest import mock

import numpy as np
from gymnasium import spaces

from a2perf.domains.any_environment import api_remark
from a2perf_audit import policies
from a2perf_audit.bench import COULD_NOT_RUN, FAILS, HOLDS, NOT_APPLICABLE, NOT_FINISHED, Bench, Finding
from a2perf_audit.episodes import ExpertError, Played, first_difference, legal, play, value_hash

SHARE = 0.5
"""Part of the way from random actions to the expert that a policy which should not win may go."""
_OWN_VARIABLES = (
    "PATH",
    "PYTHON",
    "LD_",
    "HOME",
    "TMP",
    "TEMP",
    "XDG_",
    "A2PERF_",
    "MUJOCO_",
    "DISPLAY",
    "CUDA_",
    "JAX_",
    "OMP_",
    "OPENBLAS_",
    "MKL_",
)
"""Beginnings of variables with the places of programs and files, or the device that draws."""
RESOLUTION = 2.0
"""Least gap between random actions and the expert, in interval widths of 100 episodes."""
_CLOCKS = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time")
_SEEDS = (3, 4, 5)
_PERIODS = 40
_DRAWN = 20
_LONGEST = 10_000
"""Steps of the one episode that is played to its end, however long it is."""
_LIMIT = re.compile(r"_?(max|limit|horizon|episode).*|.*(limit|horizon)")

Check = Callable[[Bench], Finding]
CHECKS: list[Check] = []


class _OutOfTime(BaseException):
    """Ends a check; not an Exception, which would count as one of the environment."""


@contextlib.contextmanager
def _time_limit(seconds: float | None) -> Iterator[None]:
    if seconds is None:
        yield
        return

    def end(number: int, frame: object) -> None:
        raise _OutOfTime

    previous = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def _check(question: str) -> Callable[[Callable[[Bench], tuple[str, str, int | None]]], Check]:
    def register(function: Callable[[Bench], tuple[str, str, int | None]]) -> Check:
        def run(bench: Bench) -> Finding:
            started = time.perf_counter()
            limit_s = bench.subject.time_limit_s
            try:
                with _time_limit(limit_s):
                    found = function(bench)
            except ExpertError:
                raise
            except _OutOfTime:
                found = NOT_FINISHED, f"it took longer than {limit_s:g} s", None
            except (Exception, SystemExit) as error:  # of the environment under audit
                found = COULD_NOT_RUN, f"it raised {type(error).__name__}: {error}", None
            return Finding(function.__name__, question, *found, seconds=round(time.perf_counter() - started, 2))

        run.__name__ = function.__name__
        CHECKS.append(run)
        return run

    return register


def _holds(evidence: str) -> tuple[str, str, int | None]:
    return HOLDS, evidence, None


def _fails(evidence: str, seed: int | None = None) -> tuple[str, str, int | None]:
    return FAILS, evidence, seed


def _none(reason: str) -> tuple[str, str, int | None]:
    return NOT_APPLICABLE, reason, None


@_check("Does it follow the rules of Gymnasium's API?")
def api(bench: Bench) -> tuple[str, str, int | None]:
    """Gymnasium's own checker."""
    with contextlib.closing(bench.subject.make()) as env:
        remark = api_remark(env)
    return _fails(remark) if remark else _holds("Gymnasium's checker accepts it")


@_check("Does it accept every action of its space that its mask allows, without an exception?")
def actions_accepted(bench: Bench) -> tuple[str, str, int | None]:
    """Random and constant actions."""
    space = bench.env.action_space
    if isinstance(space, spaces.Box) and not space.is_bounded():
        return _fails("its actions have no bounds: policies that choose larger numbers cannot be compared")
    for played in [*bench.random, *(_constant(bench, action) for action in policies.constants(space))]:
        if played.problem:
            return _fails(played.problem, played.seed)
    return _holds(f"{bench.subject.episodes} random episodes and every constant action")


@_check("Does the same seed give the same episode, bit for bit?")
def same_seed(bench: Bench) -> tuple[str, str, int | None]:
    """Two episodes in one environment, one in a new environment, and one that is drawn."""
    for seed in _SEEDS:
        once, again = (_random(bench, bench.env, seed) for _ in range(2))
        if text := first_difference(once, again):
            return _fails(f"two episodes with the same seed and actions: {text}", seed)
        if text := first_difference(once, _random(bench, bench.subject.make(), seed, close=True)):
            return _fails(f"the episode in a new environment: {text}", seed)
    if "rgb_array" not in (bench.env.metadata.get("render_modes") or ()):
        return _holds(f"{len(_SEEDS)} seeds, each three times")
    if bench.subject.drawn_fails:
        return _holds(f"{len(_SEEDS)} seeds, each three times; it cannot be drawn here: {bench.subject.drawn_fails}")
    actions = once.actions[:_DRAWN]
    with contextlib.closing(bench.subject.make(render_mode="rgb_array")) as env:
        drawn = play(env, actions, seed, bench.cap, between=env.render)
    if text := first_difference(play(bench.env, actions, seed, bench.cap), drawn):
        return _fails(f"while pictures of it are drawn, {text}", seed)
    return _holds(f"{len(_SEEDS)} seeds, each three times, and once while pictures are drawn")


@_check("Do different seeds give different episodes?")
def seeds_differ(bench: Bench) -> tuple[str, str, int | None]:
    """The same actions with different seeds, and seeds at equal distances."""
    if bench.is_deterministic:
        return _none("every seed gives the same episode: scores have no spread, and more episodes say nothing")
    found = [play(bench.env, bench.random[0].actions[:50], seed, 50).steps for seed in range(_PERIODS)]
    for period in range(1, _PERIODS // 2):
        if all(found[seed] == found[seed + period] for seed in range(_PERIODS - period)):
            return _fails(f"seeds {period} apart give the same episode: there are only {period}")
    return _holds(f"the same actions give another episode with another seed; {_PERIODS} seeds do not repeat regularly")


@_check("Is an episode independent of the episodes before it?")
def episodes_independent(bench: Bench) -> tuple[str, str, int | None]:
    """A seed alone and after episodes of other seeds, ended and broken off."""
    alone = {seed: _random(bench, bench.subject.make(), seed, close=True) for seed in _SEEDS}
    with contextlib.closing(bench.subject.make()) as env:
        for seed in reversed(_SEEDS):
            for _ in range(3):
                _random(bench, env, 77)
            play(env, policies.random_policy(env)(1), 99, 3)
            if text := first_difference(alone[seed], _random(bench, env, seed)):
                return _fails(f"after other episodes {text}", seed)
    return _holds("the order of seeds and broken-off episodes change nothing")


@_check("Do two environments in one process leave each other alone?")
def instances_independent(bench: Bench) -> tuple[str, str, int | None]:
    """An episode while another environment steps."""
    seed = _SEEDS[0]
    alone = _random(bench, bench.env, seed)
    other = bench.subject.make()
    try:
        seen = [other.reset(seed=seed + 50)[0]]
        other.action_space.seed(9)

        def disturb() -> None:
            action = legal(other.action_space.sample(), seen[0], other.action_space)
            seen[0], _, terminated, truncated, _ = other.step(action)
            if terminated or truncated:
                seen[0] = other.reset()[0]

        actions = alone.actions
        if text := first_difference(alone, play(bench.env, actions, seed, bench.cap, between=disturb)):
            return _fails(f"while another environment steps, {text}", seed)
    except Exception as error:
        return _fails(f"a second environment raises {type(error).__name__}: {error}", seed)
    finally:
        other.close()
    return _holds("another environment stepped in between")


@_check("Is an episode independent of the clock?")
def clock(bench: Bench) -> tuple[str, str, int | None]:
    """Clocks of the modules ``time`` and ``datetime`` a day later, and a pause of over a second in the middle."""
    seed = _SEEDS[0]
    normal = _random(bench, bench.env, seed)
    for seconds in (3_607, 86_461):
        with _clocks_later(seconds):
            later = play(bench.env, normal.actions, seed, bench.cap)
        if text := first_difference(normal, later):
            return _fails(f"with clocks {seconds} s later {text}", seed)
    pauses = [1.1]
    slow = play(bench.env, normal.actions, seed, bench.cap, between=lambda: time.sleep(pauses.pop() if pauses else 0))
    if text := first_difference(normal, slow):
        return _fails(f"with a pause of 1.1 s before the first step {text}", seed)
    return _holds("later clocks and a pause change nothing")


@_check("Is an episode independent of the process, its hash seed, folder and number of threads?")
def process(bench: Bench) -> tuple[str, str, int | None]:
    """Two new processes with other threads, hash seeds and folders, the second one also with another host name, locale,
    time zone and user, and with other values of the variables that the environment reads.
    """
    seed = _SEEDS[0]
    here, asked = _with_variables_noted(bench, seed)
    other = {"LC_ALL": "C", "TZ": "Asia/Kathmandu", "USER": "somebody", "LOGNAME": "somebody", "A2PERF_AUDIT_HOST": "x"}
    other |= {name: "7" for name in asked if not name.startswith(_OWN_VARIABLES)}
    for threads, hashes, variables in (("1", "0", {}), ("4", "1", other)):
        with tempfile.TemporaryDirectory() as folder:
            there = _in_process(bench, here, threads, hashes, folder, variables)
        if isinstance(there, str):
            return _none(there)
        if there != here.steps:
            step = next((i for i, (a, b) in enumerate(zip(there, here.steps, strict=False)) if a != b), 0)
            named = f", {', '.join(variables)} changed" if variables else ""
            return _fails(
                f"in another process with {threads} threads and hash seed {hashes}{named} it differs in step {step}",
                seed,
            )
    return _holds(
        "two processes with 1 and 4 threads, other hash seeds, folders, host and locale give the same episode"
    )


@_check("Does a reset after truncation start a clean episode?")
def clean_reset(bench: Bench) -> tuple[str, str, int | None]:
    """An episode, a reset without an end, and the same seed again."""
    last = max(bench.random, key=lambda one: len(one.rewards))
    for seed in _SEEDS:
        fresh = _random(bench, bench.subject.make(), seed, close=True)
        play(bench.env, last.actions, last.seed, bench.cap)
        if text := first_difference(fresh, _random(bench, bench.env, seed)):
            return _fails(f"after the longest episode {text}", seed)
    return _holds("an episode after the longest one equals that of a new environment")


@_check("Do episodes end?")
def episodes_end(bench: Bench) -> tuple[str, str, int | None]:
    """Random and constant policies within the registered limit."""
    limit = getattr(bench.env.spec, "max_episode_steps", None)
    lengths = {len(played.rewards) for played in bench.random if not played.truncated and played.ended}
    own = vars(bench.env.unwrapped).items()
    if len(lengths) == 1 and min(lengths) > 1 and all(played.ended and not played.truncated for played in bench.random):
        for name, value in own:
            if type(value) is int and value in lengths and _LIMIT.fullmatch(name):
                return _fails(f"every episode terminates after {value} steps, which is its {name}: that is truncation")
    if limit is None or limit > bench.cap:
        return _none(f"no limit of at most {bench.cap} steps is registered")
    for played in [*bench.random, *(_constant(bench, action) for action in policies.constants(bench.env.action_space))]:
        if not played.ended and not played.problem:
            return _fails(f"an episode has more than {len(played.rewards)} steps; registered are {limit}", played.seed)
    return _holds(f"within {limit} steps")


@_check("Are observations elements of their space?")
def observations_inside(bench: Bench) -> tuple[str, str, int | None]:
    """Every observation of the random episodes."""
    space = bench.env.observation_space
    for played in bench.random:
        for step, observation in enumerate(played.observations):
            if not space.contains(observation):
                return _fails(f"the observation of step {step} is not in {str(space)[:80]}", played.seed)
    return _holds(f"all of {bench.subject.episodes} random episodes")


@_check("Does an observation that a policy keeps stay as it is?")
def observations_kept(bench: Bench) -> tuple[str, str, int | None]:
    """The same objects before and after the next step."""
    seed = _SEEDS[0]
    observation, _ = bench.env.reset(seed=seed)
    bench.env.action_space.seed(seed)
    for step in range(min(20, bench.cap)):
        before = value_hash(observation)
        kept, action = observation, legal(bench.env.action_space.sample(), observation, bench.env.action_space)
        given = value_hash(action)
        observation, _, terminated, truncated, _ = bench.env.step(action)
        if value_hash(kept) != before:
            return _fails(f"step {step + 1} changes the observation before it: policies see the future", seed)
        if value_hash(action) != given:
            return _fails(f"step {step + 1} changes the action that it was given", seed)
        if terminated or truncated:
            break
    return _holds("observations and actions are not changed by a later step")


@_check("Are rewards finite and in the declared range?")
def rewards(bench: Bench) -> tuple[str, str, int | None]:
    """Every reward of random, constant and expert episodes."""
    low, high = bench.subject.reward_range or (-math.inf, math.inf)
    constant = [_constant(bench, action) for action in policies.constants(bench.env.action_space)]
    policy = bench.expert_policy
    expert = [] if policy is None else bench.episodes(lambda seed: policy)
    longest = max(bench.random, key=lambda one: len(one.rewards))
    if not longest.ended and not longest.problem:
        constant.append(play(bench.env, policies.random_policy(bench.env)(7), 7, _LONGEST))
    for played in [*bench.random, *constant, *expert]:
        for step, reward in enumerate(played.rewards, 1):
            if not math.isfinite(reward) or not low <= reward <= high:
                declared = f", declared are {low:g} to {high:g}" if bench.subject.reward_range else ""
                return _fails(f"the reward of step {step} is {reward:g}{declared}", played.seed)
    return _holds("all are finite" + (f" and from {low:g} to {high:g}" if bench.subject.reward_range else ""))


@_check("Do actions matter?")
def actions_matter(bench: Bench) -> tuple[str, str, int | None]:
    """The same seed with different actions."""
    seed = _SEEDS[0]
    first = play(bench.env, policies.random_policy(bench.env)(1), seed, bench.cap)
    for other in range(2, 8):
        second = play(bench.env, policies.random_policy(bench.env)(other), seed, bench.cap)
        if second.steps != first.steps or second.rewards != first.rewards:
            return _holds("other actions give another episode")
    return _fails("seven different lists of actions give the same episode", seed)


@_check("Do policies lose that should not win?")
def trivial_policies_lose(bench: Bench) -> tuple[str, str, int | None]:
    """Null, constants, loops, repetition, and numbers of the observation as the action."""
    if name := bench.answer_in_info:
        return _fails(f"info[{name!r}] is the action of the expert in every step")
    best = bench.trivial[0]
    succeeds = next((mean for mean in bench.trivial if mean.successes is not None and mean.successes > SHARE), None)
    if succeeds is not None:
        return _fails(f"'{succeeds.name}' succeeds in {succeeds.successes:.0%} of the episodes: return {succeeds}")
    if bench.expert is None:
        return _none(f"no expert is given; the best of {len(bench.trivial)} is '{best.name}': {best}")
    if bench.expert.value <= bench.floor.value:
        return _none(f"random actions ({bench.floor}) are as good as the expert ({bench.expert}): see the resolution")
    share = bench.share(best)
    way = f"{share:.0%} of the way from random actions ({bench.floor}) to the expert ({bench.expert})"
    text = f"'{best.name}' has {best}: {way}"
    return _fails(text) if share >= SHARE else _holds(f"the best, {text}")


@_check("Does a policy lose that sees only time?")
def time_only_loses(bench: Bench) -> tuple[str, str, int | None]:
    """A policy of the number of the step, searched by the return."""
    if bench.expert is None or bench.expert.value <= bench.floor.value:
        return _none("no expert is given that is better than random actions")
    if bench.is_deterministic:
        return _none("every seed gives the same episode, so a list of actions can solve it")
    if bench.timed is None:
        return _none("actions of this space are not searched")
    share = bench.share(bench.timed)
    text = f"{bench.timed}, {share:.0%} of the way to the expert"
    return _fails(f"without observations: {text}") if share >= 0.9 else _holds(text)


@_check("Does the expert need the observation?")
def observation_needed(bench: Bench) -> tuple[str, str, int | None]:
    """The expert with observations of random other moments."""
    policy = bench.expert_policy
    if policy is None or bench.expert is None or bench.expert.value <= bench.floor.value:
        return _none("no expert is given that is better than random actions")
    played = bench.random[:5] + bench.episodes(lambda seed: policy, keep=True)[:5]
    seen = [observation for one in played for observation in one.observations]
    if len({value_hash(one) for one in seen}) < 2:
        return _none("all observations are equal")
    if bench.is_deterministic:
        return _none("every seed gives the same episode")
    try:
        mean = bench.mean("expert with shuffled observations", lambda seed: policies.shuffled(policy, seen, seed))
    except ExpertError as error:
        return _holds(f"with observations of other moments, {error.message}")
    share = bench.share(mean)
    text = f"the expert with observations of other moments has {mean}, {share:.0%} of the way to itself"
    return _fails(text) if share >= 0.9 else _holds(text)


@_check("Is the expert's behaviour the best that the reward knows?")
def no_degenerate_optimum(bench: Bench) -> tuple[str, str, int | None]:
    """A search by the reward alone, loops, and the expert that stops before its end, against the expert."""
    if bench.expert is None:
        return _none("no expert is given")
    found = [mean for mean in (bench.learned, bench.timed, *bench.stalling, *bench.trivial) if mean is not None]
    best = max(found, key=lambda mean: mean.value - mean.half)
    margin = bench.expert.half + 0.05 * abs(bench.expert.value - bench.floor.value)
    if best.value - best.half > bench.expert.value + margin:
        return _fails(f"'{best.name}' has {best}, more than the expert's {bench.expert}: it is paid for something else")
    return _holds(f"the best of {len(found)}, '{best.name}', has {best}; the expert {bench.expert}")


@_check("Does the expert reach the maximum?")
def maximum_reached(bench: Bench) -> tuple[str, str, int | None]:
    """The declared maximum against the best episode of the expert."""
    maximum, policy = bench.subject.maximum, bench.expert_policy
    if maximum is None or policy is None:
        return _none("no maximum or no expert is given")
    totals = [one.total for one in bench.episodes(lambda seed: policy, first=100)]
    if max(totals) > maximum + 1e-6 * max(1.0, abs(maximum)):
        return _fails(f"an episode of the expert has {max(totals):g}, above the declared {maximum:g}")
    if max(totals) < maximum - 0.01 * max(1.0, abs(maximum)):
        return _fails(f"the best episode of the expert has {max(totals):g} of {maximum:g}")
    return _holds(f"{max(totals):g} of {maximum:g}")


@_check("Can it separate entries?")
def resolution(bench: Bench) -> tuple[str, str, int | None]:
    """The gap between random actions and the expert in interval widths of 100 episodes."""
    if bench.expert is None:
        return _none("no expert is given")
    gap = bench.expert.value - bench.floor.value
    spread = math.sqrt((bench.expert.sd**2 + bench.floor.sd**2) / 2)
    width = 2 * 1.96 * spread / 10
    if gap <= 0 or (width > 0 and gap / width < RESOLUTION):
        return _fails(f"the gap between random actions and the expert is {gap:.3g}; one interval is {width:.3g} wide")
    count = "any number of" if width == 0 else f"about {gap / width:.0f}"
    return _holds(f"{count} entries between random actions ({bench.floor}) and the expert ({bench.expert})")


def _constant(bench: Bench, action: Any) -> Played:
    return play(bench.env, lambda o, t: action, 7, bench.cap)


def _random(bench: Bench, env: Any, seed: int, *, close: bool = False) -> Played:
    try:
        return play(env, policies.random_policy(env)(seed), seed, bench.cap)
    finally:
        if close:
            env.close()


def _clocks_later(seconds: float) -> Any:
    """Returns a context in which the clocks of the modules ``time`` and ``datetime`` are later."""
    stack = contextlib.ExitStack()
    shift_by = datetime.timedelta(seconds=seconds)

    class LaterDatetime(datetime.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return real_now(tz) + shift_by

        @classmethod
        def utcnow(cls) -> Any:
            return real_now(datetime.UTC).replace(tzinfo=None) + shift_by

        today = now

    class LaterDate(datetime.date):
        @classmethod
        def today(cls) -> Any:
            return (real_now() + shift_by).date()

    real_now = datetime.datetime.now
    replaced = {id(datetime.datetime): LaterDatetime, id(datetime.date): LaterDate}
    for module in list(sys.modules.values()):  # also where a module has imported a class by its name
        for name, value in list(vars(module).items()) if isinstance(module, types.ModuleType) else ():
            if id(value) in replaced:
                stack.enter_context(mock.patch.object(module, name, replaced[id(value)]))
    for name in _CLOCKS:
        real = getattr(time, name)
        shift = int(seconds * 1e9) if name.endswith("_ns") else seconds
        stack.enter_context(mock.patch.object(time, name, lambda real=real, shift=shift: real() + shift))
    return stack


def _with_variables_noted(bench: Bench, seed: int) -> tuple[Played, list[str]]:
    """Plays an episode in a new environment; returns also the variables of the process that it asked for."""
    asked: dict[str, None] = {}
    real = os._Environ.__getitem__

    def noted(self: Any, name: Any) -> Any:
        asked[str(name)] = None
        return real(self, name)

    env = bench.subject.make()
    with mock.patch.object(os._Environ, "__getitem__", noted):
        played = _random(bench, env, seed, close=True)
    return played, [*asked]


def _in_process(
    bench: Bench, here: Played, threads: str, hashes: str, folder: str, other: Mapping[str, str]
) -> list[str] | str:
    """Returns the hashes of the same episode in a new process, or why its actions cannot be sent there.

    Raises:
        ChildProcessError: the environment cannot be made or played there.
    """
    try:
        actions = json.dumps([np.asarray(action).tolist() for action in here.actions])
    except (TypeError, ValueError):
        return "its actions are not arrays"
    if any(isinstance(action, dict | tuple) for action in here.actions[:1]):
        return "its actions are not arrays"
    request = json.dumps({"name": bench.subject.name, "kwargs": dict(bench.subject.kwargs), "seed": here.seed})
    variables = {
        **os.environ,
        "PYTHONHASHSEED": hashes,
        "OMP_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "HOME": folder,
        **other,
    }
    done = subprocess.run(
        [sys.executable, "-m", "a2perf_audit.replay", request],
        input=actions,
        env=variables,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode != 0:
        raise ChildProcessError(f"it cannot be made in another process: {done.stderr.strip().splitlines()[-1:]}")
    steps: list[str] = json.loads(done.stdout.strip().splitlines()[-1])
    return steps
