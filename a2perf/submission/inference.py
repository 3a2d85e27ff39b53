"""Inference mode: latency on observations, then rollouts that are scored."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from a2perf.domains.tfa.suite_gym import create_domain
from a2perf.errors import ConfigError, UserError
from a2perf.fault_point import fault_point
from a2perf.records import Episode, RolloutResults
from a2perf.storage import Journal, write_record
from a2perf.submission import configuration, latency, media, results
from a2perf.submission.bundle import Bundle, Finished, open_bundle
from a2perf.submission.given_paths import settled
from a2perf.submission.identity import RunTask, new_manifest
from a2perf.submission.participant_process import ParticipantProcess
from a2perf.submission.progress import RunProgress
from a2perf.submission.rollouts import rollout
from a2perf.submission.seeds import read_seed_file, spawn_seeds
from a2perf.submission.session import participant_process, supervise, tracking

if TYPE_CHECKING:
    from a2perf.submission.submission_util import Submission


def run(settings: Submission, *, force: bool = False, progress: RunProgress | None = None) -> int:
    """Evaluates the submission on its task into the bundle ``<root_dir>/inference``.

    Returns:
        The exit status.

    Raises:
        UserError: the task or the configuration is wrong; nothing was started then.
    """
    progress = progress or RunProgress()
    task = _task(settings)
    seeds = episode_seeds(settings, settings.num_inference_episodes)
    with closing(create_domain(env_name=task.env_id, framework="gymnasium", **task.env_kwargs)) as env:
        manifest = new_manifest(settings, task, episodes=len(seeds))
        manifest.seeds["episodes"] = seeds
        opened = open_bundle(settings.root / "inference", manifest, configuration.text(), force=force)
        if isinstance(opened, Finished):
            return results.already_done(opened, progress)
        bundle = opened
        return supervise(bundle, progress, lambda: _infer(settings, task, env, seeds, bundle, progress))


def _task(settings: Submission) -> RunTask:
    if settings.held_out_task is not None:
        file = settled(settings.held_out_task, settings.folder, "Submission.held_out_task")
        return RunTask.held_out(str(settings.domain), file)
    return RunTask.configured(str(settings.domain))


def episode_seeds(settings: Submission, count: int, *, stream: int = 0) -> list[int]:
    """Returns the seeds of the scored episodes: from the organizer's file, or spawned from the root seed."""
    if settings.evaluation_seeds_file is not None:
        file = settled(settings.evaluation_seeds_file, settings.folder, "Submission.evaluation_seeds_file")
        return read_seed_file(file, count)
    return spawn_seeds(settings.seed, "episodes", count, stream=stream)


def training_artifacts(settings: Submission, bundle: Bundle) -> Path:
    """Returns what the participant sees as ``ROOT_DIR``: the artifacts of its training run, or an empty folder.

    Raises:
        ConfigError: a link stands in the place of the trained bundle or of its artifacts.
    """
    given = settings.root if settings.trained_root_dir is None else settings.trained_root_dir
    root = settled(given, settings.folder, "Submission.trained_root_dir")
    trained = root / "train" / "artifacts"
    if settled(trained, None, "the artifacts") != trained:
        raise ConfigError(f"{trained} is behind a link, which a2perf never makes", mend="put the folder itself there")
    return trained if trained.is_dir() else bundle.artifacts


def _infer(
    settings: Submission, task: RunTask, env: Any, seeds: list[int], bundle: Bundle, progress: RunProgress
) -> str:
    confined = participant_process(
        settings, task, bundle.manifest, mode="inference",
        root_dir=training_artifacts(settings, bundle), artifacts=bundle.artifacts,
        logs=bundle.logs, bundle_path=bundle.path,
    )  # fmt: skip
    timings = bundle.manifest.timings_s
    with confined as participant, tracking(settings, bundle, energy_mode="inference") as sampler:
        progress.phase(f"loading {settings.folder.name}")
        started = time.perf_counter()
        participant.start()
        sampler.attach(participant.tree_root, cgroup=participant.cgroups, root_is_guard=True)
        sampler.mark("load")
        fault_point("evaluator: participant started")
        participant.load_policy(settings.participant_args, timeout_s=settings.load_timeout_s)
        timings["load_policy"] = time.perf_counter() - started
        if (
            settings.time_participant_code
            and settings.num_inference_steps
            and not (bundle.metrics / "latency.json").exists()
        ):
            sampler.mark("latency")
            latency.measure(settings, env, participant, bundle.metrics, progress)
        fault_point("evaluator: latency measured")
        sampler.mark("rollouts")
        with bundle.journal() as journal:
            actions = play(settings, task, env, participant, seeds, journal, bundle.metrics, progress)
        sampler.mark("end")
    if media.can_render(env):
        make_media(settings, task, seeds, actions, bundle, progress)
    results.publish(bundle, settings)
    episodes = completed_episodes(bundle.journal())
    returns = [episode.episode_return for episode in episodes]
    progress.say(f"{len(returns)} episodes, mean return {sum(returns) / len(returns):.2f}")
    return "finished"


def play(
    settings: Submission, task: RunTask, env: Any, participant: ParticipantProcess, seeds: list[int],
    journal: Journal, metrics: Path, progress: RunProgress, *, pictures: bool = True,
) -> dict[int, list[Any]]:  # fmt: skip
    """Plays every episode that the journal does not hold yet and writes ``rollouts.json``.

    Returns:
        The actions of the episodes of which pictures are wanted, by episode.
    """
    done = {episode.index: episode for episode in completed_episodes(journal)}
    progress.phase(f"rollouts on {task.name}", len(seeds))
    progress.advance(len(done))
    policy = participant.policy(timeout_s=settings.call_timeout_s)
    pictured = max(1 if settings.record_frames else 0, settings.record_videos) if pictures else 0
    actions: dict[int, list[Any]] = {}
    try:
        for index, seed in enumerate(seeds):
            if index in done:
                continue
            taken = actions.setdefault(index, []) if index < pictured else None
            episode = rollout(
                env, policy, index=index, seed=seed, clip_actions=settings.clip_actions,
                on_step=None if taken is None else _keep_action(taken),
            )  # fmt: skip
            fault_point("evaluator: episode played")
            journal.append({"kind": "episode", "episode": msgspec.to_builtins(episode)})
            fault_point("evaluator: episode recorded")
            done[index] = episode
            progress.advance(len(done), f"last return {episode.episode_return:.2f}")
    finally:
        episodes = [done[index] for index in sorted(done)]
        write_record(metrics / "rollouts.json", RolloutResults(task=task.name, env_id=task.env_id, episodes=episodes))
    return actions


def _keep_action(taken: list[Any]) -> Callable[[Any, Any], None]:
    return lambda observation, action: taken.append(action)


def completed_episodes(journal: Journal) -> list[Episode]:
    """Returns the episodes that a journal holds, in order of their index."""
    episodes = {
        entry["episode"]["index"]: msgspec.convert(entry["episode"], Episode)
        for entry in journal.entries()
        if entry.get("kind") == "episode"
    }
    return [episodes[index] for index in sorted(episodes)]


def make_media(
    settings: Submission,
    task: RunTask,
    seeds: list[int],
    actions: dict[int, list[Any]],
    bundle: Bundle,
    progress: RunProgress,
) -> None:
    """Renders the pictured episodes; a failure to render is a warning and not a failed run."""
    for index, taken in actions.items():
        stem = bundle.media / f"episode_{index:03d}"
        try:
            if index == 0 and settings.record_frames:
                progress.phase("rendering a picture strip")
                media.write_strip(stem.with_suffix(".png"), task, seeds[index], taken, settings.record_frames)
            if index < settings.record_videos:
                progress.phase(f"rendering a video of episode {index}")
                media.write_video(stem.with_suffix(".mp4"), task, seeds[index], taken)
        except (UserError, RuntimeError, ValueError, TypeError, OSError) as error:
            bundle.manifest.warnings.append(f"no picture of episode {index}: {error}")
