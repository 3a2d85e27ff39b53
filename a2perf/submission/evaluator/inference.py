"""Inference mode: measures latency, then plays the scored episodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from a2perf.domains.tfa.suite_gym import create_domain
from a2perf.errors import ConfigError, UserError
from a2perf.fault_point import fault_point
from a2perf.records import (
    FURTHER_EPISODE,
    SCORED_EPISODE,
    Episode,
    FailureKind,
    LatencyResults,
    Manifest,
    RolloutResults,
    StepCosts,
)
from a2perf.runs.bundle import Bundle
from a2perf.runs.layout import ARTIFACTS, LATENCY_FILE, ROLLOUTS_FILE, STEPS_FILE
from a2perf.storage import Journal, read_record, write_record
from a2perf.submission.evaluator import artifacts, latency, media, results, step_account
from a2perf.submission.evaluator.action_record import ActionRecorder
from a2perf.submission.evaluator.episode_plan import PerturbedEnvironments, episode_plan, studies_reliability
from a2perf.submission.evaluator.failures import ParticipantFailure
from a2perf.submission.evaluator.identity import RunTask, new_manifest
from a2perf.submission.evaluator.model_relay.handle import RelayCaller, model_relay
from a2perf.submission.evaluator.participants import ParticipantFolders, Participants
from a2perf.submission.evaluator.progress import RunProgress
from a2perf.submission.evaluator.rollouts import rollout
from a2perf.submission.evaluator.seeds import RunSeeds, read_seed_file
from a2perf.submission.evaluator.session import run_mode
from a2perf.submission.evaluator.step_account import StepAccount
from a2perf.submission.evaluator.step_trace import StepTrace
from a2perf.submission.evaluator.tracking import tracking
from a2perf.submission.given_paths import settled
from a2perf.submission.settings import Submission


def run(settings: Submission, *, force: bool = False, progress: RunProgress | None = None) -> int:
    """Evaluates the submission on its task into the bundle ``<root_dir>/inference``.

    Returns:
        The exit status.

    Raises:
        UserError: the task or the configuration is wrong; nothing has been started.
    """
    progress = progress or RunProgress()
    task = _task(settings)
    with closing(create_domain(env_name=task.env_id, framework="gymnasium", **task.env_kwargs)) as env:
        manifest = new_manifest(settings, task, episodes=settings.num_inference_episodes)
        manifest.seeds["episodes"] = episode_seeds(settings, manifest, settings.num_inference_episodes)
        return run_mode(
            settings, manifest, progress, lambda bundle: _infer(settings, task, env, bundle, progress), force=force
        )


def _task(settings: Submission) -> RunTask:
    if settings.held_out_task is not None:
        file = settled(settings.held_out_task, settings.folder, "Submission.held_out_task")
        return RunTask.held_out(str(settings.domain), file)
    return RunTask.configured(str(settings.domain))


def episode_seeds(settings: Submission, manifest: Manifest, count: int, *, stream: int = 0) -> list[int]:
    """Returns the seeds of the scored episodes: from the organizer's file, or by the scheme in the manifest."""
    if settings.evaluation_seeds_file is not None:
        file = settled(settings.evaluation_seeds_file, settings.folder, "Submission.evaluation_seeds_file")
        return read_seed_file(file, count)
    return RunSeeds.recorded(manifest.root_seed, manifest.seeds).draw("episodes", count, stream=stream)


def training_artifacts(settings: Submission, bundle: Bundle) -> Path:
    """Returns the participant's ``ROOT_DIR``: the artifacts of its training run, or an empty folder.

    Raises:
        ConfigError: the trained bundle or its artifacts folder is a link.
    """
    given = settings.root if settings.trained_root_dir is None else settings.trained_root_dir
    root = settled(given, settings.folder, "Submission.trained_root_dir")
    trained = root / "train" / ARTIFACTS
    if settled(trained, None, "the artifacts") != trained:
        raise ConfigError(f"the path {trained} contains a link", hint="replace the link by the folder itself")
    return trained if trained.is_dir() else bundle.artifacts


def _infer(settings: Submission, task: RunTask, env: Any, bundle: Bundle, progress: RunProgress) -> str:
    with model_relay(settings, bundle) as relay:
        actions = _measure(settings, task, env, bundle, progress, None if relay is None else relay.caller)
    artifacts.count(bundle.artifacts, "infer_once", settings.artifact_limit_bytes)
    if media.can_render(env):
        make_media(settings, task, bundle.manifest.seeds["episodes"], actions, bundle, progress)
    results.publish(bundle, settings)
    episodes = completed_episodes(bundle.journal())
    returns = [episode.episode_return for episode in episodes]
    progress.say(f"{len(returns)} episodes, mean return {sum(returns) / len(returns):.2f}")
    return "finished"


def _measure(
    settings: Submission, task: RunTask, env: Any, bundle: Bundle, progress: RunProgress, model: RelayCaller | None
) -> dict[int, list[Any]]:
    """Loads the policy, measures latency, and plays the episodes; returns the actions to render."""
    seeds = bundle.manifest.seeds["episodes"]  # those of the first attempt, in case the run resumes
    folders = ParticipantFolders(
        root_dir=training_artifacts(settings, bundle), artifacts=bundle.artifacts, logs=bundle.logs, bundle=bundle.path
    )
    tracker = tracking(settings, bundle)
    opened = Participants(settings, task, bundle.manifest, folders, mode="inference", tracker=tracker, model=model)
    with opened as participants:
        progress.phase(f"loading {settings.folder.name}")
        participant = participants.load()
        if (
            settings.time_participant_code
            and settings.num_inference_steps
            and not (bundle.metrics / LATENCY_FILE).exists()
        ):
            participants.mark("latency")
            drawn = RunSeeds.recorded(bundle.manifest.root_seed, bundle.manifest.seeds)
            latency.measure(settings, env, participant, drawn, bundle.metrics, progress)
        fault_point("evaluator: latency measured")
        participants.mark("rollouts")
        with bundle.journal() as journal:
            actions = play(settings, task, env, participants, seeds, journal, bundle.metrics, progress)
        participants.mark("end")
    return actions


def play(
    settings: Submission, task: RunTask, env: Any, participants: Participants, seeds: list[int],
    journal: Journal, metrics: Path, progress: RunProgress, *, pictures: bool = True,
) -> dict[int, list[Any]]:  # fmt: skip
    """Plays every episode that is not in the journal yet; writes ``rollouts.json`` and ``rollout_steps.npz``.

    Returns:
        The actions of the episodes to render, by episode.
    """
    plan, studied = episode_plan(settings, seeds), studies_reliability(settings)
    scored, further = _by_index(completed_episodes(journal)), _by_index(further_episodes(journal))
    progress.phase(f"rollouts on {task.name}", len(plan))
    progress.advance(len(scored) + len(further))
    pictured = max(1 if settings.record_frames else 0, settings.record_videos) if pictures else 0
    actions: dict[int, list[Any]] = {}
    account: StepAccount | None = None
    costs: StepCosts | None = None
    try:
        with PerturbedEnvironments(task, env) as environments:
            for planned in plan:
                index = planned.index
                if index in scored or index in further:
                    continue
                if account is not None and settings.fresh_policy == "episode":
                    account.pause()
                world = environments.of(planned.perturbation)
                participant = participants.of_episode(index, repeat=planned.repeat)
                account = account or StepAccount(participant, settings.call_timeout_s)
                account.follow(participant)
                taken = actions.setdefault(index, []) if index < min(pictured, len(seeds)) else None
                recorder = ActionRecorder(world.action_space) if studied else None
                before = account.calls
                trace = StepTrace() if planned.is_scored else None
                try:
                    episode = rollout(
                        world, account, index=index, seed=planned.seed, clip_actions=settings.clip_actions,
                        on_step=_on_step(taken, recorder), trace=trace,
                    )  # fmt: skip
                except ParticipantFailure as error:
                    if not planned.perturbation or participant.ending is not None or not _is_bad_action(error):
                        raise
                    # The policy may rely on what the perturbation changes: the episode fails, not the run.
                    episode = Episode(
                        index=index, seed=planned.seed, episode_return=0.0, length=account.calls - before,
                        terminated=True, truncated=False, termination="invalid action", success=False,
                    )  # fmt: skip
                fault_point("evaluator: episode played")
                episode.task_index, episode.repeat = planned.task_index, planned.repeat
                episode.perturbation = planned.perturbation
                episode.confidence = participant.confidence(settings.call_timeout_s)
                steps = account.steps(before)
                if recorder is not None:
                    episode.actions, episode.policy_cpu_s = recorder.record(), sum(steps["cpu_ns"]) * 1e-9
                if trace is not None:
                    costs = account.costs()
                    recorded = {**steps, **trace.record()}
                    journal.append({"kind": SCORED_EPISODE, "episode": msgspec.to_builtins(episode), "steps": recorded})
                    scored[index] = episode
                else:
                    journal.append({"kind": FURTHER_EPISODE, "episode": msgspec.to_builtins(episode)})
                    further[index] = episode
                fault_point("evaluator: episode recorded")
                progress.advance(len(scored) + len(further), f"last return {episode.episode_return:.2f}")
    finally:
        _compare_with_timed(costs, metrics, participants.process.warnings)
        write_record(
            metrics / ROLLOUTS_FILE,
            RolloutResults(
                task=task.name, env_id=task.env_id, episodes=_in_order(scored), costs=costs, further=_in_order(further)
            ),
        )
        step_account.write_steps(metrics / STEPS_FILE, journal.entries())
    return actions


def _compare_with_timed(costs: StepCosts | None, metrics: Path, warnings: list[str]) -> None:
    """Flags scored steps that cost much more than the timed calls, and adds a warning for any flag."""
    if costs is None:
        return
    if (metrics / LATENCY_FILE).exists():
        timed = read_record(metrics / LATENCY_FILE, LatencyResults).costs
        if timed is not None and step_account.unlike(timed, costs):
            costs.flags.append(step_account.UNLIKE_TIMED)
    if (text := step_account.warning(costs, "scored episodes")) is not None:
        warnings.append(text)


def _is_bad_action(error: ParticipantFailure) -> bool:
    """Returns whether the participant works, but its action is not valid."""
    invalid = error.failure.kind in (FailureKind.BAD_OUTPUT, FailureKind.ILLEGAL)
    return invalid and error.failure.where.startswith("infer_once")


def _on_step(taken: list[Any] | None, recorder: ActionRecorder | None) -> Callable[[Any, Any], None] | None:
    """Returns what is called with each observation and action of an episode."""
    if taken is None:
        return recorder

    def keep(observation: Any, action: Any) -> None:
        taken.append(action)
        if recorder is not None:
            recorder(observation, action)

    return keep


def completed_episodes(journal: Journal) -> list[Episode]:
    """Returns the scored episodes in a journal, ordered by index."""
    return _journalled(journal, SCORED_EPISODE)


def further_episodes(journal: Journal) -> list[Episode]:
    """Returns the repeated and perturbed episodes in a journal, ordered by index."""
    return _journalled(journal, FURTHER_EPISODE)


def _journalled(journal: Journal, kind: str) -> list[Episode]:
    found = [msgspec.convert(entry["episode"], Episode) for entry in journal.entries() if entry.get("kind") == kind]
    return _in_order(_by_index(found))


def _by_index(episodes: Sequence[Episode]) -> dict[int, Episode]:
    return {episode.index: episode for episode in episodes}


def _in_order(episodes: dict[int, Episode]) -> list[Episode]:
    return [episodes[index] for index in sorted(episodes)]


def make_media(
    settings: Submission,
    task: RunTask,
    seeds: list[int],
    actions: dict[int, list[Any]],
    bundle: Bundle,
    progress: RunProgress,
) -> None:
    """Renders episodes; a rendering error is only a warning."""
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
