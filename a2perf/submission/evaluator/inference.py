"""Inference mode: measures latency, then plays the scored episodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from a2perf.domains.availability import require_packages
from a2perf.errors import ConfigError
from a2perf.fault_point import fault_point
from a2perf.records import Manifest
from a2perf.runs.bundles.bundle import Bundle
from a2perf.runs.bundles.layout import ARTIFACTS, LATENCY_FILE
from a2perf.submission.evaluator.playing import latency, media, results
from a2perf.submission.evaluator.playing.episode_records import recorded_returns
from a2perf.submission.evaluator.playing.play import environment, play
from a2perf.submission.evaluator.playing.seeds import RunSeeds, read_seed_file
from a2perf.submission.evaluator.process.participants import ParticipantFolders, Participants
from a2perf.submission.evaluator.process.session import Sessions, run_mode, services_of
from a2perf.submission.evaluator.progress import RunProgress
from a2perf.submission.evaluator.submitted import artifacts
from a2perf.submission.evaluator.submitted.identity import RunTask, new_manifest
from a2perf.submission.evaluator.tracking import tracking
from a2perf.submission.given_paths import settled
from a2perf.submission.settings import Recording, Submission
from a2perf.system import UserInterrupt


def run(settings: Submission, *, force: bool = False, progress: RunProgress | None = None) -> int:
    """Evaluates the submission on its task into the bundle ``<root_dir>/inference``.

    Raises:
        UserError: the task or the configuration is wrong; nothing has been started.
    """
    progress = progress or RunProgress()
    if settings.held_out_task is None:
        task = RunTask.configured(str(settings.domain))
    else:
        file = settled(settings.held_out_task, settings.folder, "Submission.held_out_task")
        task = RunTask.held_out(str(settings.domain), file)
    require_packages([task.env_id])
    with environment(task) as env:
        manifest = new_manifest(settings, task, episodes=settings.num_inference_episodes)
        manifest.seeds["episodes"] = episode_seeds(settings, manifest, settings.num_inference_episodes)
        return run_mode(
            settings, settings.root, manifest, progress, lambda bundle: _infer(settings, task, env, bundle, progress),
            force=force,
        )  # fmt: skip


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
    with services_of(settings, settings.folder, bundle, progress.say) as services:
        kept = _measure(settings, task, env, bundle, progress, services)
    artifacts.count(bundle.artifacts, "infer_once", settings.artifact_limit_bytes)
    if media.can_render(env):
        make_media(settings, task, bundle.manifest.seeds["episodes"], kept, bundle, progress)
    results.publish_from(bundle.path, "inference", settings.values, emissions=settings.measure_emissions)
    returns = recorded_returns(bundle.journal())
    progress.say(f"{len(returns)} episodes, mean return {sum(returns) / len(returns):.2f}")
    return "finished"


def _measure(
    settings: Submission, task: RunTask, env: Any, bundle: Bundle, progress: RunProgress, services: Sessions
) -> dict[int, media.Kept]:
    """Loads the policy, measures latency, and plays the episodes; returns what their pictures are made from."""
    seeds = bundle.manifest.seeds["episodes"]  # those of the first attempt, in case the run resumes
    folders = ParticipantFolders(
        root_dir=training_artifacts(settings, bundle), artifacts=bundle.artifacts, logs=bundle.logs, bundle=bundle.path
    )
    tracker = tracking(settings, bundle)
    opened = Participants(
        settings, task, bundle.manifest, folders, mode="inference", tracker=tracker, services=services, env=env
    )
    with opened as participants:
        progress.say(participants.level_text)
        progress.phase(f"loading {settings.folder.name}")
        participant = participants.load()
        if settings.num_inference_steps and not (bundle.metrics / LATENCY_FILE).exists():
            participants.mark("latency")
            drawn = RunSeeds.recorded(bundle.manifest.root_seed, bundle.manifest.seeds)
            latency.measure(settings, env, participant, drawn, bundle.metrics, progress, stall_s=settings.stall_s)
        fault_point("evaluator: latency measured")
        with bundle.journal() as journal:
            pictured = max(min(1, settings.record_frames), settings.record_videos)
            kept = play(
                settings, task, env, participants, seeds, journal, bundle.metrics, progress, stall_s=settings.stall_s,
                pictured=pictured,
            )  # fmt: skip
        participants.mark("end")
    return kept


def make_media(
    settings: Recording, task: RunTask, seeds: list[int], kept: dict[int, media.Kept], bundle: Bundle,
    progress: RunProgress,
) -> None:  # fmt: skip
    """Renders episodes; a rendering error is only a warning."""
    for index, episode in kept.items():
        stem = bundle.media / f"episode_{index:03d}"
        try:
            if index == 0 and settings.record_frames:
                progress.phase("rendering a picture strip")
                media.write_strip(stem.with_suffix(".png"), task, seeds[index], episode, settings.record_frames)
            if index < settings.record_videos:
                progress.phase(f"rendering a video of episode {index}")
                media.write_video(stem.with_suffix(".mp4"), task, seeds[index], episode)
        except UserInterrupt:
            raise
        except BaseException as error:  # of any package that an environment draws with
            bundle.manifest.warnings.append(f"no picture of episode {index}: {error}")
