"""The environments of a batch: one for each row, or one vector environment for all of them.

A task's own vector environment is used where nothing but a reset and a step is asked of its members: without wrappers
of the organizer and without perturbations. Its members give the episodes of single environments with the same seeds;
``batch`` plays one episode again in a single one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker

from a2perf.domains.registry import all_environments
from a2perf.domains.tfa.suite_gym import make_environment
from a2perf.errors import InfrastructureError, UserError
from a2perf.runs.bundles.agreement import PlannedEpisode
from a2perf.submission.evaluator.playing.action_record import ActionRecorder
from a2perf.submission.evaluator.playing.episodes import TaskEpisodes
from a2perf.submission.evaluator.playing.play import Variants, environment
from a2perf.submission.evaluator.playing.rollouts import PlayedEpisode
from a2perf.submission.evaluator.playing.step_trace import StepTrace, row_hashes
from a2perf.submission.evaluator.process.failures import EnvironmentFailure, ParticipantFailure
from a2perf.submission.evaluator.process.rows import stacked
from a2perf.submission.participant.shared_region import plain_arrays

_MOST_MEMBERS = 64
"""Members of a vector environment: more may be shared out among processes, which an evaluator does not start."""


@dataclass(eq=False)
class Row:
    """An episode that is being played with others.

    Attributes:
        member: number of its environment.
        action: the checked one of the step that is due.
        cpu_ns: its shares of the processor time of the calls.
    """

    member: int
    planned: PlannedEpisode
    episode: PlayedEpisode
    trace: StepTrace | None
    observation: Any = None
    action: Any = None
    actions: ActionRecorder | None = None
    on_step: list[Callable[[Any, Any, Any], None]] = field(default_factory=list)
    cpu_ns: list[int] = field(default_factory=list)


class Members(Protocol):
    """The environments of a batch.

    Attributes:
        count: how many episodes can be played together.
    """

    count: int

    def env(self, row: Row) -> Any:
        """Returns the environment of a row."""

    def begin(self, row: Row) -> None:
        """Starts the episode of a row.

        Raises:
            EnvironmentFailure: the environment raised an exception.
        """

    def observations(self, rows: list[Row], memory: Any) -> Any:
        """Returns those of the rows, stacked; ``memory`` holds them for sending, if the last ones were alike."""

    def see(self, rows: list[Row]) -> None:
        """Adds the observations to the traces."""

    def step(self, rows: list[Row]) -> Iterator[tuple[Row, EnvironmentFailure | ParticipantFailure | None]]:
        """Steps with the actions of the rows; yields each with its failure."""


@contextmanager
def members_of(episodes: TaskEpisodes, env: Any) -> Iterator[Members]:
    """Opens the environments of a batch, ``env`` among them if each row has its own."""
    task, count = episodes.task, min(episodes.settings.batch, len(episodes))
    known = all_environments().get(task.env_id)
    has_own = known is not None and known[1].vector_entry_point is not None and _has_plain_spaces(env)
    if has_own and 1 < count <= _MOST_MEMBERS and _is_bare(env) and not episodes.settings.perturbations:
        try:
            vector = make_environment(
                task.env_id, task.env_kwargs, num_envs=count, vectorization_mode="vector_entry_point"
            )
        except UserError:
            raise
        except Exception as error:
            message = f"the vector environment of {task.env_id} cannot be created: {error!r}"
            raise InfrastructureError(message) from error
        with closing(vector):
            observations, _ = vector.reset(seed=0)
            if vector.metadata.get("autoreset_mode") is AutoresetMode.NEXT_STEP:
                yield _Vector(vector, observations)
                return
    with ExitStack() as opened:
        envs = [env, *(opened.enter_context(environment(task)) for _ in range(count - 1))]
        yield _Envs([opened.enter_context(closing(Variants(task, one))) for one in envs])


def _has_plain_spaces(env: Any) -> bool:
    """Returns whether observations are arrays, and actions an array or a number: such rows can be stacked."""
    return env.action_space.shape is not None and plain_arrays(env.observation_space.sample()) is not None


def _is_bare(env: Any) -> bool:
    """Returns whether an environment has no wrappers but the checks of ``gymnasium.make``."""
    while isinstance(env, PassiveEnvChecker | OrderEnforcing):
        env = env.env
    return env is env.unwrapped


class _Envs:
    """An environment for each row."""

    def __init__(self, variants: list[Variants]) -> None:
        self._variants, self.count = variants, len(variants)

    def env(self, row: Row) -> Any:
        return self._variants[row.member].under(row.planned.perturbation)

    def begin(self, row: Row) -> None:
        row.observation = row.episode.reset(self.env(row))

    def observations(self, rows: list[Row], memory: Any) -> Any:
        return stacked([row.observation for row in rows], memory)

    def see(self, rows: list[Row]) -> None:
        for row in rows:
            if row.trace is not None:
                row.trace.see(row.observation)

    def step(self, rows: list[Row]) -> Iterator[tuple[Row, EnvironmentFailure | ParticipantFailure | None]]:
        for row in rows:
            try:
                row.observation = row.episode.step(self.env(row), row.action)
            except (EnvironmentFailure, ParticipantFailure) as failure:
                yield row, failure
            else:
                yield row, None


class _Vector:
    """A vector environment; a member without an episode steps with actions that nobody chose."""

    def __init__(self, vector: Any, observations: Any) -> None:
        self._vector, self.count = vector, vector.num_envs
        self._observations = observations
        vector.action_space.seed(0)
        self._actions = vector.action_space.sample()

    def env(self, row: Row) -> Any:
        envs = getattr(self._vector, "envs", None)
        return self._vector if envs is None else envs[row.member]

    def begin(self, row: Row) -> None:
        chosen = np.arange(self.count) == row.member
        seeds = [row.planned.seed if is_chosen else None for is_chosen in chosen]
        try:
            self._observations, _ = self._vector.reset(seed=seeds, options={"reset_mask": chosen})
        except BaseException as error:
            raise row.episode.failure("reset", error)  # noqa: B904 -- it has its cause
        row.episode.begin(self._vector.single_action_space)

    def observations(self, rows: list[Row], memory: Any) -> Any:
        if len(rows) == self.count:
            return self._observations
        members = [row.member for row in rows]
        if isinstance(self._observations, dict):
            return {name: array[members] for name, array in self._observations.items()}
        return self._observations[members]

    def see(self, rows: list[Row]) -> None:
        traces = {row.member: row.trace for row in rows if row.trace is not None}
        for trace, digest in zip(traces.values(), row_hashes(self._observations, traces), strict=True):
            trace.see_hash(digest)

    def step(self, rows: list[Row]) -> Iterator[tuple[Row, EnvironmentFailure | ParticipantFailure | None]]:
        for row in rows:
            self._actions[row.member] = row.action
        try:
            self._observations, rewards, terminated, truncated, infos = self._vector.step(self._actions)
            paid, ends, cuts = rewards.tolist(), terminated.tolist(), truncated.tolist()
            terms = infos.get("reward_terms")
            for row in rows:
                member = row.member
                if ends[member] or cuts[member]:
                    info = _of_member(infos, member)
                else:
                    info = {} if terms is None else {"reward_terms": _of_member(terms, member)}
                row.episode.add(paid[member], ends[member], cuts[member], info)
        except BaseException as error:
            first = min(rows, key=lambda row: row.planned.index)
            failure = first.episode.failure(f"a step of {self.count} environments, one of them", error)
            if not isinstance(failure, EnvironmentFailure):
                raise failure  # noqa: B904 -- it has its cause
            yield first, failure
            return
        for row in rows:
            yield row, None


def _of_member(infos: dict[str, Any], member: int) -> dict[str, Any]:
    """Returns the ``info`` of one member from that of a vector environment."""
    found = {}
    for name, values in infos.items():
        mask = infos.get(f"_{name}")
        if not (name.startswith("_") and name[1:] in infos) and (mask is None or mask[member]):
            found[name] = _of_member(values, member) if isinstance(values, dict) else values[member]
    return found
