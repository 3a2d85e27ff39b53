"""Cards for the Hugging Face hub: a model card of evaluated runs.

Nothing is sent anywhere; ``card.push_to_hub`` and ``hf upload`` publish. Needs the package ``huggingface_hub`` (extra
``huggingface``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from a2perf.metrics.values import Profile
from a2perf.plain_text import plain_text
from a2perf.runs.reading import AnyRuns
from a2perf_trackers.exporting import imported
from a2perf_trackers.model_card_text import model_card_text
from a2perf_trackers.model_results import TASK, eval_results, model_results, training_emissions

if TYPE_CHECKING:
    from huggingface_hub import ModelCard


def model_card(
    runs: AnyRuns,
    *,
    algorithm: str | None = None,
    profile: Profile = "corrected",
    license: str | None = None,
    library_name: str = "a2perf",
    tags: Sequence[str] = (),
) -> ModelCard:
    """Returns a model card with the results of one submission.

    The metadata holds ``model-index`` (one entry per task, mode and metric, with unit, interval and provenance in the
    arguments of the metric) and ``co2_eq_emissions`` if training was recorded. The text holds tables of results,
    commands that reproduce the runs, and conditions.

    Args:
        runs: ``Runs``, ``Result`` objects, or paths of runs.
        algorithm: name of the submission, if the runs have several.
        profile: the formulas of the scores, ``"corrected"`` or ``"upstream"``.
        license: license of the model as the hub names it, ``"apache-2.0"``.
        library_name: library that loads the model, for example ``"stable-baselines3"``.

    Returns:
        A ``huggingface_hub.ModelCard``; ``str(card)`` is the text of README.md, and ``card.save(path)`` writes it.

    Raises:
        UserError: no run was found, the runs have several submissions or versions, a run is not finished or was changed
            after it ended, or no run has a score.
        MissingDependency: the package ``huggingface_hub`` is not installed.

    Example:
        >>> from a2perf_trackers.huggingface import model_card
        >>> card = model_card("results/recorded/learning/numpy_ars.zip")
        >>> [(r.dataset_type, r.metric_type) for r in card.data.eval_results][0]
        ('QuadrupedLocomotion-SyntheticTrot-v1', 'normalised_score')
    """
    library = imported("huggingface_hub", "huggingface_hub", "cards for the Hugging Face hub need", "huggingface")
    results = model_results(runs, algorithm=algorithm, profile=profile)
    domains = {plain_text(setting.domain) for setting in results.settings if setting.domain}
    tasks = {plain_text(setting.task) for setting in results.settings if setting.task}
    emissions = training_emissions(results)
    data = library.ModelCardData(
        model_name=results.title,
        library_name=plain_text(library_name),
        pipeline_tag=TASK,
        license=license,
        tags=[*dict.fromkeys(("a2perf", TASK, *sorted(domains), *sorted(tasks), *map(plain_text, tags)))],
        eval_results=[library.EvalResult(**entry) for entry in eval_results(results)],
        **({"co2_eq_emissions": emissions} if emissions is not None else {}),
    )
    card: ModelCard = library.ModelCard(f"---\n{data.to_yaml()}\n---\n\n{model_card_text(results)}")
    return card
