"""Pages of the environments: each id with its picture, spaces, arguments, reference scores; tasks and data files."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium import spaces

from a2perf.domains.registry import Domain, Environment, domains, load_attribute, register_environments
from a2perf.errors import UserError
from a2perf.metrics.protocol import LATEST, Protocol, load
from docs.building.markdown import cell, code, described_with_bases, summary, table
from docs.building.pictures import Filmed, film

MEDIA = "_static/media"
# What an entry point takes beside the arguments of its class.
FURTHER = {"CircuitTraining-Generated-v0": "a2perf.domains.circuit_training.design_plan:DesignSpec"}
NOTHING = Filmed(missing="the build was told to make none")
Film = Callable[[Domain, Environment, Path], Filmed]


def write(folder: Path, media: Path, *, film: Film | None = film) -> dict[str, str]:
    """Writes ``ids_<domain>.md`` for every domain, ``tasks.md`` and ``data_files.md``.

    Args:
        folder: the folder of the pages on environments, one level below the top of the site.
        media: where pictures and videos go.
        film: makes them; None makes no environment at all, so that nothing is said of spaces either.

    Returns:
        HTML that shows a domain, by its name; empty where nothing could be drawn.
    """
    register_environments()
    folder.mkdir(parents=True, exist_ok=True)
    protocol, shown = load(LATEST), {}
    for domain in domains().values():
        text = [f"# {domain.title}: ids and arguments", "", domain.summary, ""]
        rows = [[code(one.id), one.summary] for one in domain.environments]
        text += [table(["id", ""], rows), ""]
        for environment in domain.environments:
            filmed = NOTHING if film is None else film(domain, environment, media)
            text += _environment(environment, filmed, protocol, known=film is not None)
            if filmed.video and domain.name not in shown:
                shown[domain.name] = figure(filmed)
        text += _arguments(domain)
        (folder / f"ids_{domain.name}.md").write_text("\n".join(text), encoding="utf-8")
    (folder / "tasks.md").write_text(_tasks(protocol), encoding="utf-8")
    (folder / "data_files.md").write_text(_data_files(), encoding="utf-8")
    return shown


def figure(filmed: Filmed) -> str:
    """Returns HTML that shows the video, or else the picture, with its caption."""
    caption = f"<figcaption>{filmed.caption}</figcaption>"
    if filmed.video:
        shown = (
            f'<video controls muted loop playsinline preload="metadata" poster="../{MEDIA}/{filmed.still}">'
            f'<source src="../{MEDIA}/{filmed.video}" type="video/mp4"></video>'
        )
    else:
        shown = f'<img src="../{MEDIA}/{filmed.still}" alt="{filmed.caption}">'
    return f'<figure class="environment">{shown}{caption}</figure>\n'


def _environment(environment: Environment, filmed: Filmed, protocol: Protocol, *, known: bool) -> list[str]:
    text = [f"## {environment.id}", "", f"{environment.summary[:1].upper()}{environment.summary[1:]}.", ""]
    text += [figure(filmed)] if filmed.still else []
    text += [f"*No picture here: {cell(filmed.missing)}*", ""] if filmed.missing and not filmed.still else []
    text += [f"*{cell(filmed.missing)}*", ""] if filmed.missing and filmed.still else []
    facts = [
        ["arguments of the id", ", ".join(code(f"{key}={value!r}") for key, value in environment.kwargs.items())],
        ["must be given", ", ".join(code(f"{key}=...") for key in environment.example)],
        ["other names", ", ".join(code(alias) for alias in environment.aliases)],
        ["ranked only with", code(environment.ranking)],
        ["made by", code(environment.entry_point)],
        *(_spaces(environment) if known else ()),
        *_scores(environment, protocol),
    ]
    return [*text, table(["", ""], [row for row in facts if row[1]]), ""]


def _spaces(environment: Environment) -> list[list[str]]:
    try:
        env = gymnasium.make(environment.id, disable_env_checker=True, **environment.example)
    except (UserError, ImportError) as error:
        return [["spaces", f"not known here: {str(error).splitlines()[0]}"]]
    try:
        return [
            ["observation", _space(env.observation_space)],
            ["action", _space(env.action_space)],
            ["pictures", ", ".join(code(mode) for mode in env.metadata.get("render_modes", ()))],
        ]
    finally:
        env.close()


def _space(space: spaces.Space[Any]) -> str:
    if isinstance(space, spaces.Dict):
        return "Dict: " + ", ".join(f"{code(name)} {_space(part)}" for name, part in space.items())
    if isinstance(space, spaces.Box):
        low, high = float(space.low.min()), float(space.high.max())
        return f"Box{list(space.shape)} {space.dtype} in [{low:g}, {high:g}]"
    if isinstance(space, spaces.Discrete):
        return f"Discrete({space.n})"
    return cell(str(space))


def _scores(environment: Environment, protocol: Protocol) -> list[list[str]]:
    rows = []
    for task in protocol.tasks.values():
        if task.env_id == environment.id and task.references:
            scores = ", ".join(
                f"{kind} {one.mean:.2f} [{one.low:.2f}, {one.high:.2f}]" for kind, one in task.references.items()
            )
            rows.append([f"returns in {code(task.name)} (protocol {protocol.name})", scores])
    return rows


def _arguments(domain: Domain) -> list[str]:
    text: list[str] = []
    seen: set[type] = set()
    for environment in domain.environments:
        made = typing.get_type_hints(load_attribute(environment.entry_point)).get("return")
        further = load_attribute(FURTHER[environment.id]) if environment.id in FURTHER else None
        for kind in (made, further):
            if inspect.isclass(kind) and kind not in seen:
                seen.add(kind)
                text += _arguments_of(kind)
    return text


def _arguments_of(kind: type) -> list[str]:
    said = described_with_bases(kind)
    rows = [
        [code(item.name), "" if callable(item.default) else code(repr(item.default)), said.get(item.name, "")]
        for item in inspect.signature(kind).parameters.values()
        if item.kind != item.VAR_KEYWORD
    ]
    text = [f"## Arguments of {kind.__name__}", "", summary(kind), ""]
    return [*text, table(["argument", "default", "meaning"], rows)]


def _tasks(protocol: Protocol) -> str:
    text = [
        "# Tasks",
        "",
        "A task is an id with arguments; `--task NAME` runs it. The *core* tasks count in the overall score of the "
        f"[protocol](../reference/protocol.md) {protocol.name}; the random and the expert policy are its references.",
        "",
    ]
    for domain in domains().values():
        rows = []
        for task in domain.tasks:
            known = protocol.tasks.get(task.name)
            scores = known.references if known is not None and known.references else {}
            rows.append(
                [
                    code(task.name), code(task.env_id), _mapping(task.kwargs),
                    "" if known is None else "core" if known.core else "yes",
                    *(f"{scores[kind].mean:.2f}" if kind in scores else "" for kind in ("random", "expert")),
                    "yes" if task.name in domain.generalization_tasks else "",
                ]
            )  # fmt: skip
        headers = ["task", "id", "arguments", "in the protocol", "random", "expert", "generalization"]
        text += [f"## {domain.title}", "", table(headers, rows), ""]
    return "\n".join(text)


def _mapping(values: Mapping[str, Any]) -> str:
    return ", ".join(code(f"{key}={value!r}") for key, value in values.items())


def _data_files() -> str:
    text = [
        "# Data files",
        "",
        "Files that are not shipped. `a2perf data fetch` gets them and checks their SHA-256; `a2perf data list` says "
        "which are here.",
        "",
    ]
    for domain in domains().values():
        rows = [[code(one.name), one.summary, one.licence, code(one.sha256[:16])] for one in domain.assets]
        text += [f"## {domain.title}", ""]
        text += [table(["file", "what", "terms", "SHA-256 begins"], rows) or "It needs no data file.\n", ""]
    return "\n".join(text)
