"""``python -m docs.building.python_api``: writes docs/reference/python_api.md from docstrings."""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import a2perf

PAGE = Path(__file__).resolve().parents[1] / "reference" / "python_api.md"

GROUPS = {
    "Environments": ("tasks", "make", "make_vec"),
    "Run": ("evaluate", "train", "submit", "check", "track", "reproduce"),
    "Read and compare": ("read_run", "read_runs", "score", "compare", "time_to_result", "to_frame", "open_dataset"),
    "Write": ("write_report", "write_leaderboard"),
    "Types": (
        "Result", "Runs", "Scores", "Table", "Comparison", "TaskInfo", "Tasks", "Submitted", "CheckReport", "Tracked",
        "OfflineDataset", "Reproduced", "RunSettings",
    ),
    "Errors": ("UserError", "RunFailed"),
}  # fmt: skip

OTHER_TOOLS = (
    "exporters.mlflow.log_runs", "exporters.wandb.log_runs", "exporters.tensorboard.log_runs",
    "exporters.huggingface.model_card", "exporters.huggingface.dataset_card", "exporters.huggingface.push",
    "datasets.croissant.write_croissant",
)  # fmt: skip
"""Functions of other tools, below ``a2perf``."""

COMMANDS: dict[str, tuple[str, ...]] = {
    "demo": ("evaluate", "train", "write_report"),
    "run": ("evaluate", "train", "experiments.experiment.plan", "launch.conductor.Conductor.run"),
    "status": ("experiments.progress.read_progress",),
    "submit": ("submit",),
    "reproduce": ("reproduce",),
    "wrap": ("experiments.script_wrapper.run.run",),
    "benchmark": ("experiments.benchmark_matrix.run_matrix",),
    "smoketest": ("experiments.smoke_test.pairs.try_pairs",),
    "perftest list": ("experiments.performance_test.configuration.find_tests",),
    "perftest run": ("experiments.performance_test.run_test.run_test",),
    "perftest run-all": ("experiments.performance_test.run_test.run_test",),
    "experiment": ("experiments.kinds.plan_kind", "launch.conductor.Conductor.run"),
    "report": ("write_report",),
    "score": ("score",),
    "envs list": ("tasks",),
    "protocol": ("metrics.protocol.load",),
    "leaderboard": ("write_leaderboard", "time_to_result"),
    "rlops compare": ("compare",),
    "rlops import": ("runs.importers.import_run",),
    "rlops tags add": ("rlops.tags.TagJournal.change",),
    "rlops tags remove": ("rlops.tags.TagJournal.change",),
    "rlops tags list": ("rlops.store.Store.tag_names",),
    "rlops tags history": ("rlops.tags.TagJournal.history",),
    "export mlflow": ("exporters.mlflow.log_runs",),
    "export wandb": ("exporters.wandb.log_runs",),
    "export tensorboard": ("exporters.tensorboard.log_runs",),
    "export huggingface": ("exporters.huggingface.model_card", "exporters.huggingface.push"),
    "export croissant": ("datasets.croissant.write_croissant",),
    "competition init": ("experiments.competition.creation.create",),
    "competition run": ("experiments.competition.run_entrants.run",),
    "competition close": ("experiments.competition.entrants.close",),
    "competition publish": ("api.competition_site.publish_site",),
    "competition verify": ("experiments.competition.verification.check_reveal",),
    "competition domains": ("domains.registry.domains",),
    "validate": ("runs.bundle.validate",),
    "sign": ("runs.signing.sign",),
    "verify": ("runs.signing.verify",),
    "model usage": ("runs.model_calls.read_calls",),
    "model redact": ("runs.model_redaction.redact_bundle",),
    "model serve-script": ("submission.scripted_model.server.ScriptedModel",),
    "pack": ("runs.pack.pack",),
    "unpack": ("runs.pack.unpack",),
    "doctor": ("api.host.host_probes.every_finding",),
    "init": ("submission.templates.create_submission",),
    "check": ("check",),
    "data fetch": ("domains.data_files.fetch_missing",),
    "data list": ("domains.data_files.list_files",),
    "data path": ("domains.data_files.file_path",),
    "data clips generate": ("domains.quadruped_locomotion.gaits.generate_clip",),
    "data clips list": ("domains.quadruped_locomotion.gaits.synthetic_clip",),
    "data clips show": ("domains.quadruped_locomotion.gallery.track_targets",),
    "data netlist generate": ("domains.circuit_training.generator.generate",),
    "data netlist stats": ("domains.circuit_training.statistics.netlist_statistics",),
    "data netlist show": ("domains.circuit_training.rendering.PlacementPicture",),
    "data netlist convert": ("domains.circuit_training.conversion.design_of",),
    "data netlists import": ("domains.circuit_training.netlists.importing.import_netlist",),
    "data netlists sample": ("domains.circuit_training.netlists.flat_generator.write_flat_design",),
    "data netlists save-pnr": ("domains.circuit_training.netlists.placement_export.save_task_placement_pnr",),
    "data websites generate": ("domains.web_navigation.generator.draw_candidate",),
    "data websites difficulty": ("domains.web_navigation.generator.summary",),
    "data websites show": ("make",),
    "datasets combine": ("datasets.combine.combine",),
    "datasets generate": ("datasets.generate.generate",),
    "datasets inspect": ("open_dataset",),
    "datasets list": ("datasets.listing.list_datasets",),
    "datasets skill-levels": ("datasets.skill_levels.cut",),
    "datasets validate": ("datasets.validation.problems_of",),
    "python-env list": ("submission.evaluator.python_env.environments.list_environments",),
    "python-env prune": (
        "submission.evaluator.python_env.environments.prunable_environments",
        "submission.evaluator.python_env.environments.delete_environment",
    ),
    "images list": ("launch.images.listed",),
    "images build": ("launch.images.ensure",),
    "images prune": ("launch.images.prune",),
    "completion": (),
}
"""The functions below ``a2perf`` that do the work of each command."""

_SECTIONS = ("Args", "Attributes", "Returns", "Yields", "Raises", "Example", "Examples")
_SKIP = re.compile(r" *# doctest: \+\w+")
_ENTRY = re.compile(r"^(\*{0,2}[\w.]+)(?: \([^)]*\))?: (.*)$", re.DOTALL)

_HEAD = """# Python API

`import a2perf` gives these functions and types. The commands call the same functions.

<!-- not executed: the policy and the runs are yours -->
```python
import a2perf

result = a2perf.evaluate(policy, task="dog_pace", episodes=20, seed=0)
print(result)
runs = a2perf.read_runs("runs/")
frame = a2perf.to_frame(runs.scores())
a2perf.compare(runs, baseline="v1", candidate="v2").plot()
```

Importing takes less than 50 ms. Each name is imported on first use, and optional packages when a function needs them:
`pip install -e '.[frames]'` for pandas, polars and Arrow. Errors are exceptions of the type `a2perf.UserError` with
the text that the commands print; nothing ends the process.
"""

_STABILITY = """## Stability

Public are the names on this page, their parameters, and the attributes and methods without a leading underscore. They
follow [semantic versioning](https://semver.org): a minor version adds names and keyword parameters; only a major
version removes or renames them. A name works for one minor version with a `DeprecationWarning` before it is removed.
Modules below `a2perf` that this page does not name can change in every version. The functions in the table of commands
change with their command: an option that stays keeps its parameter.
"""


def find(name: str) -> Any:
    """Returns the object of a dotted name below ``a2perf``.

    Raises:
        AttributeError: there is no such object.
    """
    first, _, rest = name.partition(".")
    if not rest:
        return getattr(a2perf, first)
    parts = name.split(".")
    for split in range(len(parts) - 1, 0, -1):
        try:
            module = importlib.import_module(".".join(("a2perf", *parts[:split])))
        except ModuleNotFoundError:
            continue
        return functools.reduce(getattr, parts[split:], module)
    raise AttributeError(name)


def sections(docstring: str) -> dict[str, str]:
    """Splits a docstring into the text before the first section, under ``""``, and its sections."""
    found: dict[str, list[str]] = {"": []}
    current = ""
    for line in inspect.cleandoc(docstring).splitlines():
        if line.removesuffix(":") in _SECTIONS and line.endswith(":"):
            current = line.removesuffix(":")
            found[current] = []
        else:
            found[current].append(line)
    return {name: textwrap.dedent("\n".join(lines)).strip() for name, lines in found.items()}


def page() -> str:
    """Returns the page."""
    parts = [_HEAD, "## Public names\n"]
    for heading, names in GROUPS.items():
        rows = [f"| [`{name}`](#{_anchor(name)}) | {_first_line(find(name))} |" for name in names]
        parts.append(f"**{heading}**\n\n| name | description |\n| --- | --- |\n" + "\n".join(rows) + "\n")
    rows = [f"| `a2perf.{name}` | {_first_line(find(name))} |" for name in OTHER_TOOLS]
    parts.append("**Other tools**\n\n| name | description |\n| --- | --- |\n" + "\n".join(rows) + "\n")
    for heading, names in GROUPS.items():
        parts.append(f"## {heading}\n")
        parts += [_type(name) if inspect.isclass(find(name)) else _function(name) for name in names]
    parts.append(_commands())
    parts.append(_STABILITY)
    return "\n".join(parts).rstrip() + "\n"


def _function(name: str) -> str:
    function = find(name)
    return "\n".join([f"### `{name}`\n", _signature(name, function), *_described(function)])


def _type(name: str) -> str:
    kind = find(name)
    return "\n".join([f"### `{name}`\n", *_described(kind), *_members(kind)])


def _described(named: Any) -> Iterator[str]:
    for section, text in sections(named.__doc__ or "").items():
        if section == "":
            yield _prose(text) + "\n"
        elif section.startswith("Example"):
            yield f"```pycon\n{_SKIP.sub('', text)}\n```\n"
        elif section in ("Args", "Attributes", "Raises"):
            label = {"Args": "Parameters", "Attributes": "Attributes", "Raises": "Raises"}[section]
            yield f"{label}:\n\n" + "\n".join(_items(text)) + "\n"
        else:
            yield f"{section}: {_prose(text)}\n"


def _items(text: str) -> Iterator[str]:
    entries: list[str] = []
    for line in text.splitlines():
        inside = line.strip()
        if inside.startswith("* "):  # a list inside an entry
            entries.append(f"  - {inside.removeprefix('* ')}")
        elif line.startswith(" ") and entries:
            entries[-1] += f" {inside}"
        elif inside:
            match = _ENTRY.match(line)
            entries.append(f"- `{match[1]}`: {match[2]}" if match else f"- {inside}")
    for entry in entries:
        yield entry.replace("``", "`")


def _members(kind: type) -> Iterator[str]:
    attributes, methods = [], []
    for name, member in inspect.getmembers(kind):
        if name.startswith("_") or not (member.__doc__ or "").strip() or _inherited(kind, name):
            continue
        if isinstance(member, property | functools.cached_property):
            attributes.append(f"| `.{name}` | {_first_line(member)} |")
        elif inspect.isroutine(member):
            methods.append(f"| `.{name}{_parameters(member)}` | {_first_line(member)} |")
    if attributes or methods:
        yield "| member | description |\n| --- | --- |\n" + "\n".join([*attributes, *methods]) + "\n"


def _inherited(kind: type, name: str) -> bool:
    """Returns whether a member comes from outside the package, such as those of a sequence."""
    owner = next(base for base in kind.__mro__ if name in vars(base))
    return not owner.__module__.startswith("a2perf")


def _parameters(member: Any) -> str:
    names = [
        {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(parameter.kind.name, "") + parameter.name
        for parameter in inspect.signature(member).parameters.values()
        if parameter.name not in ("self", "cls")
    ]
    return f"({', '.join(names)})"


def _signature(name: str, function: Any) -> str:
    signature = inspect.signature(function)
    lines = [f"    {text}," for text in _parameter_texts(signature)]
    result = "" if signature.return_annotation is signature.empty else f" -> {_type_text(signature.return_annotation)}"
    return "```python\n" + "\n".join([f"def {name}(", *lines, f"){result}: ..."]) + "\n```\n"


def _parameter_texts(signature: inspect.Signature) -> Iterator[str]:
    keyword_only = False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            if not any(one.kind is one.VAR_POSITIONAL for one in signature.parameters.values()):
                yield "*"
        stars = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(parameter.kind.name, "")
        default = "" if parameter.default is parameter.empty else f" = {_value_text(parameter.default)}"
        yield f"{stars}{parameter.name}: {_type_text(parameter.annotation)}{default}"


def _value_text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _type_text(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    return text.replace("os.PathLike[str]", "PathLike")


def _first_line(named: Any) -> str:
    text = sections(named.__doc__ or "")[""].split("\n\n")[0]
    return _prose(" ".join(text.split())).replace("|", "\\|")


def _prose(text: str) -> str:
    """Returns text with Markdown's code marks, one paragraph per line."""
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
    return "\n\n".join(paragraphs).replace("``", "`")


def _anchor(name: str) -> str:
    """Returns the anchor of a heading; the second one of equal spelling (``Tasks`` after ``tasks``) gets a number."""
    same = [one for names in GROUPS.values() for one in names if one.lower() == name.lower()]
    place = same.index(name)
    return f"{name.lower()}-{place}" if place else name.lower()


def _commands() -> str:
    rows = []
    for command, functions in COMMANDS.items():
        named = ", ".join(f"`a2perf.{name}`" for name in functions) or "for shells only"
        rows.append(f"| `a2perf {command}` | {named} |")
    return (
        "## Commands and their functions\n\nThe functions that do the work of each command.\n\n"
        "| command | function |\n| --- | --- |\n" + "\n".join(rows) + "\n"
    )


def main() -> None:
    """Writes the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
