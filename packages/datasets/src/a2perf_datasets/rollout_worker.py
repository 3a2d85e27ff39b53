"""Collects blocks of episodes: the policy runs in its participant process, the environment in this one.

A finished block consists of two files, which are written atomically: its episodes (if they are kept), then its record.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from a2perf.domains.tfa.suite_gym import create_domain
from a2perf.errors import UserError, did_you_mean
from a2perf.fault_point import fault_point
from a2perf.records import Episode, Record, RunState, SandboxRecord
from a2perf.storage import read_record, write_record
from a2perf.submission.evaluator.playing.rollouts import Policy, rollout
from a2perf.submission.evaluator.process.participants import ParticipantFolders, Participants
from a2perf.submission.evaluator.submitted.identity import RunTask, new_manifest
from a2perf.submission.submission_util import Submission
from a2perf_datasets import hdf5_file
from a2perf_datasets.hdf5_file import Array, EpisodeArrays
from a2perf_datasets.noise import POLICY_ACTION, ActionNoise
from a2perf_datasets.plan import PLAN_FILE, RANDOM, Block, Plan, PlannedPolicy, episode_seed
from a2perf_datasets.space_json import flatten


class BlockRecord(Record, kw_only=True):
    """``block_<index>.json``: the episodes of a finished block."""

    schema: int = 1
    index: int
    policy: int
    episodes: list[Episode]
    sandbox: SandboxRecord | None = None


def record_path(work: Path, index: int) -> Path:
    """Returns the path of a block's record."""
    return work / "blocks" / f"block_{index:05d}.json"


def episodes_path(work: Path, index: int) -> Path:
    """Returns the path of a block's episodes."""
    return work / "blocks" / f"block_{index:05d}.hdf5"


class RolloutWorker:
    """Collects blocks of episodes one after the other.

    Every block gets a new environment, because an environment can depend on earlier episodes, for example with a
    curriculum.

    Args:
        stopped: set when the collection ends; the block that is being collected is then discarded.
    """

    def __init__(self, work: Path, plan: Plan, stopped: Event) -> None:
        self._work = work
        self._plan = plan
        self._stopped = stopped
        self._keeps = plan.purpose == "generate"

    def collect(self, block: Block) -> None:
        """Collects the episodes of a block and writes its files.

        Raises:
            ParticipantFailure: the policy failed.
            UserError: a setting of the plan is not available on this host.
        """
        played = BlockRecord(index=block.index, policy=block.policy, episodes=[])
        path = episodes_path(self._work, block.index)
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        with contextlib.ExitStack() as stack:
            stream = None
            if self._keeps:
                stack.callback(unfinished.unlink, missing_ok=True)
                stream = stack.enter_context(hdf5_file.create(unfinished))
            env = create_domain(env_name=self._plan.env_id, framework="gymnasium", **self._plan.env_kwargs)
            stack.enter_context(closing(env))
            amount = self._plan.action_noise
            noise = ActionNoise(amount, env.action_space) if amount else None
            recorded = RecordingEnvironment(env, self._plan.infos, keeps=self._keeps, noise=noise)
            policy = stack.enter_context(self._policy(self._plan.policies[block.policy], block, played, recorded))
            for place in range(block.count):
                if self._stopped.is_set():
                    return
                index = block.first + place
                seed = episode_seed(self._plan.seed, index)
                episode = rollout(recorded, policy, index=index, seed=seed)
                played.episodes.append(episode)
                if stream is not None:
                    attributes: dict[str, Any] = {"policy": block.policy}
                    if episode.success is not None:
                        attributes["success"] = episode.success
                    hdf5_file.write_episode(stream, place, recorded.episode(**attributes))
                fault_point("datasets: episode played")
            if stream is not None:
                stream.close()
                # Before the rename: after a power failure a finished block could have an empty file otherwise.
                with unfinished.open("rb") as written:
                    os.fsync(written.fileno())
                os.replace(unfinished, path)
        fault_point("datasets: block written")
        # Last: a block counts as finished as soon as its record exists.
        write_record(record_path(self._work, block.index), played)

    @contextlib.contextmanager
    def _policy(
        self, planned: PlannedPolicy, block: Block, played: BlockRecord, env: RecordingEnvironment
    ) -> Iterator[Policy]:
        if planned.submission == RANDOM:
            yield _RandomPolicy(env, block.seed)
            return
        plan = self._plan
        scratch = self._work / "scratch" / f"block_{block.index:05d}"
        shutil.rmtree(scratch, ignore_errors=True)
        for name in ("artifacts", "logs", "empty"):
            (scratch / name).mkdir(parents=True)
        settings = Submission(
            mode="inference",
            domain=plan.domain,
            root_dir=str(self._work),
            seed=plan.seed,
            record_frames=0,
            participant_module_path=planned.submission,
            participant_args=planned.participant_args,
            **plan.confining,
        )
        task = RunTask(plan.domain, plan.task, plan.env_id, plan.env_kwargs)
        manifest = new_manifest(settings, task, episodes=block.count)
        manifest.state = RunState.RUNNING
        manifest.seeds["participant"] = block.seed
        folders = ParticipantFolders(
            root_dir=Path(planned.root_dir) if planned.root_dir else scratch / "empty",
            artifacts=scratch / "artifacts",
            logs=scratch / "logs",
            bundle=scratch,
        )
        with Participants(settings, task, manifest, folders, mode="inference") as participants:
            yield participants.load()
        played.sandbox = manifest.sandbox
        shutil.rmtree(scratch, ignore_errors=True)


class _Chosen(NamedTuple):
    action: Any


class _RandomPolicy:
    """Draws actions uniformly, within the environment's action mask if it has one."""

    def __init__(self, env: RecordingEnvironment, seed: int) -> None:
        self._env = env
        self._env.action_space.seed(seed)
        self._generator = np.random.default_rng(seed)

    def infer(self, observation: Any) -> _Chosen:
        allowed = np.flatnonzero(self._env.info.get("action_mask", ()))
        if allowed.size:
            return _Chosen(int(self._generator.choice(allowed)))
        return _Chosen(self._env.action_space.sample())


class RecordingEnvironment:
    """An environment that records its episodes, with these entries of ``info``; the caller closes it.

    Args:
        keeps: whether to record anything.
        noise: action noise; with it the policy's actions are recorded as well.

    Attributes:
        info: the latest ``info``.
    """

    def __init__(
        self, env: Any, infos: Sequence[str] = (), *, keeps: bool = True, noise: ActionNoise | None = None
    ) -> None:
        self.observation_space = env.observation_space
        self.action_space = env.action_space
        self.info: dict[str, Any] = {}
        self._keeps = keeps
        self._noise = noise
        self._env = env
        self._wanted = tuple(infos)
        self._rows: dict[str, list[Array]] = {}
        self._seed = -1

    def reset(self, *, seed: int) -> tuple[Any, dict[str, Any]]:
        """Starts a new episode and discards the previous one."""
        observation, info = self._env.reset(seed=seed)
        self._seed, self._rows = seed, {}
        self._keep_seen(observation, info)
        if self._noise is not None:
            self._noise.begin(seed)
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Steps the environment."""
        if self._noise is not None:
            self._keep(f"infos/{POLICY_ACTION}", np.array(action, self.action_space.dtype))
            action = self._noise.disturbed(action, self.info.get("action_mask"))
        # Copied before the step: an environment may change the action in place.
        taken = list(flatten(self.action_space, action, "actions")) if self._keeps else []
        observation, reward, terminated, truncated, info = self._env.step(action)
        for name, value in taken:
            self._keep(name, value)
        self._keep("rewards", np.array(reward, np.float64))
        self._keep("terminations", np.array(terminated, np.bool_))
        self._keep("truncations", np.array(truncated, np.bool_))
        self._keep_seen(observation, info)
        return observation, reward, terminated, truncated, info

    def episode(self, **attributes: Any) -> EpisodeArrays:
        """Returns the episode since the last reset."""
        arrays = {name: np.stack(rows) for name, rows in self._rows.items()}
        if self._noise is not None:
            wanted = arrays[f"infos/{POLICY_ACTION}"]
            arrays[f"infos/{POLICY_ACTION}"] = np.concatenate([wanted, wanted[-1:]])
        return EpisodeArrays(self._seed, arrays, attributes)

    def _keep(self, name: str, value: Array) -> None:
        self._rows.setdefault(name, []).append(value)

    def _keep_seen(self, observation: Any, info: dict[str, Any]) -> None:
        self.info = info
        if not self._keeps:
            return
        for name, value in flatten(self.observation_space, observation, "observations"):
            self._keep(name, value)
        for entry in self._wanted:
            if entry not in info:
                raise UserError(
                    f"the environment's info has no {entry!r}{did_you_mean(entry, info)}",
                    hint=f"choose --info from: {', '.join(sorted(info)) or 'none'}",
                )
            # A copy, because an environment may reuse the array in its next step.
            kept = np.array(info[entry])
            if kept.dtype.kind not in "biuf":
                raise UserError(f"the info {entry!r} is not an array of numbers", hint="remove it from --info")
            self._keep(f"infos/{entry}", kept)


def prepare(work: Path, stopped: Event) -> None:
    """Prepares a process of the pool."""
    # Environments print, and a terminal shows progress.
    with (work / "logs" / "workers.log").open("ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    global _worker
    _worker = RolloutWorker(work, read_record(work / PLAN_FILE, Plan), stopped)


def collect(block: Block) -> None:
    """Collects a block in a prepared process; see ``RolloutWorker.collect``."""
    _worker.collect(block)


_worker: RolloutWorker
