"""Inference mode: plays the scored episodes; times further calls if they are few, or if the settings ask for them."""

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
from a2perf.submission.evaluator.playing.batch import InRows, play_in_batches
from a2perf.submission.evaluator.playing.episode_records import recorded_returns, scored_time
from a2perf.submission.evaluator.playing.episodes import TaskEpisodes
from a2perf.submission.evaluator.playing.play import environment, play, play_concurrently
from a2perf.submission.evaluator.playing.seeds import RunSeeds, read_seed_file
from a2perf.submission.evaluator.process.participants import ParticipantFolders, Participants
from a2perf.submission.evaluator.process.session import open_mode, recorded_outcome, services_of
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
        bundle = open_mode(settings, manifest, progress, force=force)
        if isinstance(bundle, int):
            return bundle
        with recorded_outcome(bundle, progress) as outcome:
            seeds = bundle.manifest.seeds["episodes"]  # those of the first attempt, in case the run resumes
            folders = ParticipantFolders(
                root_dir=training_artifacts(settings, bundle),
                artifacts=bundle.artifacts,
                logs=bundle.logs,
                bundle=bundle.path,
            )
            with (
                services_of(settings, bundle, progress.say) as services,
                Participants(
                    settings,
                    task,
                    bundle.manifest,
                    folders,
                    mode="inference",
                    tracker=tracking(settings, bundle),
                    services=services,
                    env=env,
                ) as participants,
            ):
                progress.say(participants.level_text)
                progress.phase(f"loading {settings.folder.name}")
                participant = participants.load()
                drawn = RunSeeds.recorded(manifest.root_seed, bundle.manifest.seeds)
                is_timed = (bundle.metrics / LATENCY_FILE).exists()
                if settings.num_inference_steps and not is_timed:
                    participants.mark("latency")
                    latency.measure(settings, env, participant, drawn, bundle.metrics, progress)
                elif settings.num_inference_steps is None and settings.fresh_policy == "run":
                    participants.mark("latency")
                    policy = participant if settings.batch == 1 else InRows(participant, settings.batch)
                    latency.warm_up(settings, env, participant, policy, drawn, progress)
                fault_point("evaluator: latency measured")
                participants.mark("rollouts")
                with bundle.journal() as journal:
                    pictured = max(min(1, settings.record_frames), settings.record_videos)
                    episodes = TaskEpisodes(settings, task, seeds, journal, progress, pictured=pictured)
                    try:
                        if not episodes.in_turn:
                            play_concurrently(episodes, participants)
                        elif settings.batch == 1:
                            play(episodes, env, participants)
                        else:
                            play_in_batches(episodes, env, participants)
                        one_at_a_time = episodes.in_turn and settings.batch == 1
                        if settings.num_inference_steps is None and one_at_a_time and not is_timed:
                            steps, wall_s = scored_time(journal)
                            if steps < latency.MANY_STEPS:
                                participants.mark("latency")
                                latency.measure_few(
                                    settings,
                                    env,
                                    participants.process,
                                    drawn,
                                    bundle.metrics,
                                    progress,
                                    scored_s=wall_s,
                                )
                    finally:
                        participants.warn(episodes.write(bundle.metrics))
                participants.mark("end")
            _publish(settings, task, env, episodes.kept, bundle, progress)
        return outcome.status


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


def _publish(
    settings: Submission, task: RunTask, env: Any, kept: dict[int, media.Kept], bundle: Bundle, progress: RunProgress
) -> None:
    """Writes what is made after the measurement: pictures and the classic result files."""
    artifacts.count(bundle.artifacts, "infer_once", settings.artifact_limit_bytes)
    if media.can_render(env):
        make_media(settings, task, bundle.manifest.seeds["episodes"], kept, bundle, progress)
    results.publish_from(bundle.path, "inference", settings)
    returns = recorded_returns(bundle.journal())
    progress.say(f"{len(returns)} episodes, mean return {returns.mean():.2f}")


def make_media(
    settings: Recording,
    task: RunTask,
    seeds: list[int],
    kept: dict[int, media.Kept],
    bundle: Bundle,
    progress: RunProgress,
) -> None:
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
