"""Cards for the Hugging Face hub: a model card of evaluated runs, a dataset card of an offline dataset.

Nothing is sent anywhere; ``card.push_to_hub`` and ``hf upload`` publish. Needs the package ``huggingface_hub`` (extra
``huggingface``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from a2perf.errors import MissingDependency, UserError, command_line
from a2perf.metrics.values import Profile
from a2perf.plain_text import plain_text
from a2perf.storage import read_json
from a2perf_trackers.dataset_card_text import dataset_card_text, size_category
from a2perf_trackers.exporting import RunSource, install_line
from a2perf_trackers.model_card_text import model_card_text
from a2perf_trackers.model_results import TASK, eval_results, model_results, training_emissions

if TYPE_CHECKING:
    from huggingface_hub import DatasetCard, ModelCard


__all__ = ["dataset_card", "model_card"]

CROISSANT_FILE = "croissant.json"  # as a2perf.datasets.croissant writes it


def model_card(
    runs: RunSource, *, algorithm: str | None = None, profile: Profile = "corrected",
    license: str | None = None, library_name: str = "a2perf", tags: Sequence[str] = (),
) -> ModelCard:  # fmt: skip
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
        ('QuadrupedLocomotion-SyntheticTrot-v0', 'normalised_score')
    """
    library = _library()
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


def dataset_card(dataset: object, *, license: str | None = None) -> DatasetCard:
    """Returns a dataset card from the Croissant metadata of an offline dataset.

    Args:
        dataset: a dataset of ``a2perf.open_dataset``, its folder, or the content of its ``croissant.json``.
        license: license as the hub names it; by default that of the Croissant metadata.

    Returns:
        A ``huggingface_hub.DatasetCard``; ``str(card)`` is the text of README.md.

    Raises:
        UserError: the dataset has no Croissant metadata, or they cannot be read.
        MissingDependency: the package ``huggingface_hub`` is not installed.

    Example:
        >>> from a2perf_trackers.huggingface import dataset_card
        >>> card = dataset_card("datasets/toys/boxes/made-v0")
        >>> card.data.task_categories
        ['reinforcement-learning']
    """
    library = _library()
    document = _croissant(dataset)
    steps = document.get("a2perf:steps")
    terms = license or _text(document.get("license"))
    is_link = terms.lower().startswith(("http://", "https://"))
    files = {_text(file.get("@id")) for file in _entries(document, "distribution")}
    tables = [name for name in ("steps", "episodes") if f"{name}.parquet" in files]
    more: dict[str, Any] = {}
    if tables:
        more["configs"] = [{"config_name": name, "data_files": f"{name}.parquet"} for name in tables]
    if is_link:
        more["license_name"], more["license_link"] = "see-link", terms
    data = library.DatasetCardData(
        pretty_name=_text(document.get("name")),
        license=("other" if is_link else terms.lower()) or None,
        task_categories=[TASK],
        size_categories=[size_category(steps)] if isinstance(steps, int) else None,
        tags=["a2perf", "minari", "croissant", TASK],
        **more,
    )
    card: DatasetCard = library.DatasetCard(f"---\n{data.to_yaml()}\n---\n\n{dataset_card_text(document)}")
    return card


def _library() -> Any:
    """Returns the module ``huggingface_hub``.

    Raises:
        MissingDependency: it is not installed.
    """
    try:
        import huggingface_hub
    except ModuleNotFoundError as error:
        raise MissingDependency(
            "cards for the Hugging Face hub need the package huggingface_hub, which is not installed",
            hint=install_line("huggingface"),
        ) from error
    return huggingface_hub


def _croissant(given: object) -> Mapping[str, Any]:
    if isinstance(given, Mapping):
        return given
    folder = Path(getattr(given, "path", given))  # type: ignore[arg-type]  # other types raise TypeError below
    path = next((p for p in (folder, folder / CROISSANT_FILE, folder / "data" / CROISSANT_FILE) if p.is_file()), None)
    if path is None:
        raise UserError(f"{folder} has no {CROISSANT_FILE}", hint=command_line("a2perf", "export", "croissant", folder))
    try:
        found = read_json(path)
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path} cannot be read: {error}", hint=command_line("a2perf", "export", "croissant", folder)
        ) from error
    if not isinstance(found, dict):
        raise UserError(f"{path} is not a JSON object", hint=command_line("a2perf", "export", "croissant", folder))
    return found


def _entries(document: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = document.get(name)
    return [entry for entry in found if isinstance(entry, Mapping)] if isinstance(found, list) else []


def _text(value: object) -> str:
    return plain_text(value) if isinstance(value, str) else ""
