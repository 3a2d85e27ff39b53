"""The pages of the environments: one page per id, the gallery, the tables of the domains, tasks and data files.

The generated tables and the pages per id exist on the site only; committed pages name the tables that belong there.
Rewards, the end of an episode and references are written once, on the page of the domain, and copied from there.
"""

from __future__ import annotations

import functools
import inspect
import re
import shutil
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import gymnasium

from a2perf.domains.registry import (
    Domain,
    Environment,
    Task,
    domains,
    find_environment,
    load_attribute,
    register_environments,
)
from a2perf.errors import UserError, install_hint
from a2perf.metrics.protocol import LATEST, Protocol, ProtocolTask, load
from docs.building import audits
from docs.building.markdown import cell, code, described_with_bases, table, with_tables
from docs.building.pictures import Filmed, film
from docs.building.space_tables import action_table, observation_table, space_text

MEDIA = Path("_static", "media")
PAGES = Path(__file__).resolve().parents[1] / "environments"
STRIPS = PAGES.parent / "pictures"
GALLERY = "<!-- gallery -->"
# Environment id -> the class with further arguments, which the entry point takes beside those of its class.
FURTHER = {
    "CircuitTraining-Generated-v0": "a2perf.domains.circuit_training.generated.design_plan:DesignSpec",
    **dict.fromkeys(
        (f"WebNavigation-Composed-{depth:02d}-v0" for depth in (1, 2, 3)),
        "a2perf.domains.web_navigation.environment:WebNavigationEnv",
    ),
}
# Domain -> the environment that its page describes; it can be made from the repository alone.
TYPICAL = {
    "quadruped_locomotion": "QuadrupedLocomotion-SyntheticTrot-v1",
    "web_navigation": "WebNavigation-Difficulty-01-v0",
    "circuit_training": "CircuitTraining-ToyMacro-v0",
}
# The environments that the pages of their domains show in motion.
SHOWN = ("QuadrupedLocomotion-SyntheticTrot-v1", "WebNavigation-Difficulty-03-v0", "CircuitTraining-ArianeTwin-v0")
# Sections of a domain's page that the pages of its environments repeat.
SHARED = ("Rewards", "Episode end")
NOTHING = Filmed(missing="this build makes no pictures")
Film = Callable[[Domain, Environment, Path], Filmed]


def write(folder: Path, media: Path, *, film: Film | None = film) -> None:
    """Writes a page per environment, ``tasks.md`` and ``data_files.md``, and completes the staged pages.

    Args:
        folder: the staged pages on environments, one level below the top of the site.
        media: folder of the pictures.
        film: makes the pictures; None makes no environment at all, so generated tables of pages are missing, too.
    """
    register_environments()
    folder.mkdir(parents=True, exist_ok=True)
    protocol = load(LATEST)
    history = _text(folder / "CHANGELOG.md")
    gallery = []
    order = [*TYPICAL, *(name for name in domains() if name not in TYPICAL)]
    for domain in (domains()[name] for name in order if name in domains()):
        page = folder / f"{domain.name}.md"
        if not page.is_file():
            page.write_text(f"# {domain.title}\n\n{domain.summary}\n\n{_ids(domain)}", encoding="utf-8")
        of_domain = _text(page) if film is None else with_tables(_text(page), functools.partial(block, domain))
        cards = []
        for environment in domain.environments:
            filmed = NOTHING if film is None else _with_fallback(film(domain, environment, media), domain, media)
            text = _page(domain, environment, filmed, protocol, of_domain, history, known=film is not None)
            (folder / f"{environment.id}.md").write_text(text, encoding="utf-8")
            cards.append((environment, filmed))
        page.write_text(_domain_page(domain, of_domain, cards), encoding="utf-8")
        gallery.append(f"## [{domain.title}]({domain.name}.md)\n\n{domain.summary}\n\n{_cards(cards)}")
    index = folder / "index.md"
    if index.is_file():
        index.write_text(_text(index).replace(GALLERY, "\n".join(gallery)), encoding="utf-8")
    (folder / "tasks.md").write_text(_tasks(protocol), encoding="utf-8")
    (folder / "data_files.md").write_text(_data_files(), encoding="utf-8")


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


# --- Pictures ---------------------------------------------------------------------------------------------------------


def figure(filmed: Filmed, *, alt: str) -> str:
    """Returns HTML that shows the moving picture with its caption; the still if the reader prefers no motion."""
    if not filmed.moving:
        return f"*No picture: {cell(filmed.missing)}.*\n" if filmed.missing else ""
    return f'<figure class="environment">{_picture(filmed, alt)}<figcaption>{filmed.caption}.</figcaption></figure>\n'


def _picture(filmed: Filmed, alt: str, *, lazy: bool = False) -> str:
    width, height = filmed.size
    loading = ' loading="lazy"' if lazy else ""
    return (
        f'<picture><source media="(prefers-reduced-motion: reduce)" srcset="../{MEDIA}/{filmed.still}">'
        f'<img src="../{MEDIA}/{filmed.moving}" width="{width}" height="{height}" alt="{alt}"{loading}></picture>'
    )


def _with_fallback(filmed: Filmed, domain: Domain, media: Path) -> Filmed:
    """Returns the committed strip of the domain if its environment could not be filmed."""
    strip = STRIPS / f"strip_{domain.name.partition('_')[0]}.webp"
    if filmed.moving or not strip.is_file():
        return filmed
    media.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(strip, media / strip.name)
    caption = f"Another environment of this domain; this one could not be filmed: {filmed.missing}"
    return Filmed(strip.name, strip.name, (320, 240), caption, filmed.missing)


def _cards(cards: Iterable[tuple[Environment, Filmed]]) -> str:
    """Returns HTML: one linked moving picture with its title per environment."""
    text = []
    for environment, filmed in cards:
        picture = _picture(filmed, "", lazy=True) if filmed.moving else ""
        title = environment.title or environment.id
        width, height = filmed.size
        wide = " wide" if 3 * width > 4 * height else ""  # shown whole; taller ones are cut off at the bottom
        text.append(f'<a class="card{wide}" href="{environment.id}.html">{picture}<span>{title}</span></a>')
    return f'<div class="gallery">{"".join(text)}</div>\n'


def _domain_page(domain: Domain, text: str, cards: list[tuple[Environment, Filmed]]) -> str:
    """Puts a moving picture below the title and the pages of the environments into the table of contents."""
    title, _, rest = text.partition("\n")
    top = "".join(f"\n{figure(filmed, alt=one.title)}" for one, filmed in cards if one.id in SHOWN and filmed.moving)
    pages = "\n".join(environment.id for environment, _ in cards)
    contents = f"```{{toctree}}\n:hidden:\n\n{pages}\n```\n"
    return f"{title}\n{top}{rest}\n{contents}"


# --- A page per environment -------------------------------------------------------------------------------------------


def _page(
    domain: Domain,
    environment: Environment,
    filmed: Filmed,
    protocol: Protocol,
    of_domain: str,
    history: str,
    *,
    known: bool,
) -> str:
    title = environment.title or environment.id
    sentence = f"{environment.summary[:1].upper()}{environment.summary[1:]}."
    env = _made(environment) if known else None
    text = [f"# {title}", "", figure(filmed, alt=title), ""]
    text += [f"{sentence} Part of [{domain.title}]({domain.name}.md).", ""]
    text += [table(["", ""], _facts(domain, environment, env)), ""]
    if env is not None:
        text += ["## Action space", "", action_table(domain.name, env)]
        text += ["## Observation space", "", observation_table(domain.name, env)]
        env.close()
    for heading in SHARED:
        text += [f"## {heading}", "", found, ""] if (found := section(of_domain, heading)) else []
    tasks = [task for task in domain.tasks if task.env_id == environment.id]
    if tasks:
        text += ["## Tasks and measured returns", "", returns_table(tasks, protocol), audits.links(tasks)]
    text += ["## Arguments", "", *_arguments(environment)]
    text += ["## Version history", "", found, ""] if (found := _history(history, environment)) else []
    text += ["## References", "", found, ""] if (found := section(of_domain, "References")) else []
    return "\n".join(text)


def _facts(domain: Domain, environment: Environment, env: gymnasium.Env[Any, Any] | None) -> list[list[str]]:
    example = "".join(f", {key}={value!r}" for key, value in environment.example.items())
    needs = [
        code(environment.install or install_hint(domain.extra)),
    ]
    needs += [code(f"a2perf data fetch {domain.name}")] if environment.assets else []
    task = next((task.name for task in domain.tasks if task.env_id == environment.id), None)
    make = [code(f'a2perf.make("{task}")')] if task else []
    make.append(code(f'gymnasium.make("a2perf:{environment.id}"{example})'))
    rows = [
        ["make", " or ".join(make)],
        ["evaluate", code(f'a2perf.evaluate(policy, task="{task}")') if task else ""],
        ["action space", code(space_text(env.action_space)) if env else ""],
        ["observation space", code(space_text(env.observation_space)) if env else ""],
        ["render modes", ", ".join(code(mode) for mode in env.metadata.get("render_modes", ())) if env else ""],
        ["needs", ", ".join(needs)],
        ["fixed arguments", ", ".join(code(f"{key}={value!r}") for key, value in environment.kwargs.items())],
        ["other ids", ", ".join(code(alias) for alias in environment.aliases)],
        ["ranked only with", code(environment.ranking)],
        ["entry point", code(environment.entry_point)],
    ]
    return [row for row in rows if row[1]]


def _made(environment: Environment) -> gymnasium.Env[Any, Any] | None:
    try:
        return gymnasium.make(environment.id, disable_env_checker=True, **environment.example)
    except (UserError, ImportError):
        return None


def section(page: str, heading: str) -> str:
    """Returns the text below a heading of a page, without deeper headings; "" if there is no such heading."""
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else ""


def _history(history: str, environment: Environment) -> str:
    """Returns the entry of the change log that names the id, in full or as ``-DogTrot-v0`` after another one."""
    for heading, text in re.findall(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", history, re.MULTILINE | re.DOTALL):
        first, *others = heading.split(", ")
        family = first.partition("-")[0]
        if environment.id in (first, *(f"{family}{name}" for name in others)):
            return str(text).strip()
    return ""


def returns_table(tasks: Iterable[Task], protocol: Protocol) -> str:
    """Returns the mean returns of the random policy, the floor and the expert per task of a protocol."""
    rows = []
    for task in tasks:
        known = protocol.tasks.get(task.name)
        rows.append(
            [
                code(task.name),
                task.title,
                *(_measured(known, kind) for kind in ("random", "floor", "expert")),
                "" if known is None else known.floor,
                "" if known is None else "core" if known.core else "yes",
            ]
        )
    headers = [
        "task",
        "title",
        "random policy",
        "floor",
        "expert policy",
        "what the floor is",
        f"in protocol {protocol.name}",
    ]
    return table(headers, rows)


def _measured(task: ProtocolTask | None, kind: str) -> str:
    found = (task.references or {}).get(kind) if task is not None else None  # type: ignore[call-overload]
    if found is None:
        return "not measured"
    largest = max(abs(found.low), abs(found.high))
    digits = 3 if largest < 10 else 2 if largest < 100 else 1
    return f"{found.mean:.{digits}f} [{found.low:.{digits}f}, {found.high:.{digits}f}]"


def _arguments(environment: Environment) -> list[str]:
    made = typing.get_type_hints(load_attribute(environment.entry_point)).get("return")
    further = load_attribute(FURTHER[environment.id]) if environment.id in FURTHER else None
    text = [arguments_table(made)] if inspect.isclass(made) else []
    if further is None:
        return text
    own = tuple(inspect.signature(made).parameters) if inspect.isclass(made) else ()
    return [*text, f"Of {code(further.__name__)}:\n", arguments_table(further, without=own)]


def arguments_table(kind: type, without: Collection[str] = ()) -> str:
    """Returns the arguments of a class with defaults and meaning, except for some."""
    texts = described_with_bases(kind)
    rows = [
        [code(item.name), "" if callable(item.default) else code(repr(item.default)), texts.get(item.name, "")]
        for item in inspect.signature(kind).parameters.values()
        if item.kind != item.VAR_KEYWORD and item.name not in without
    ]
    return table(["argument", "default", "meaning"], rows)


# --- Generated tables of the committed pages --------------------------------------------------------------------------


def block(domain: Domain, name: str) -> str:
    """Returns a generated table of a domain's page.

    Args:
        domain: the domain.
        name: "environments", "actions", "observations", "arguments", "composed", "design" or "returns".

    Raises:
        KeyError: there is no such table.
    """
    _, environment = find_environment(TYPICAL[domain.name])
    if name == "environments":
        return _ids(domain)
    if name == "returns":
        protocol = load(LATEST)
        return returns_table([task for task in domain.tasks if task.name in protocol.tasks], protocol)
    if name == "arguments":
        return "\n".join(_arguments(environment))
    if name == "composed":
        return arguments_table(load_attribute("a2perf.domains.web_navigation.composed:ComposedWebNavigationEnv"))
    if name == "design":
        return arguments_table(load_attribute(FURTHER["CircuitTraining-Generated-v0"]))
    make = {"actions": action_table, "observations": observation_table}[name]
    env = gymnasium.make(environment.id, disable_env_checker=True)
    try:
        return make(domain.name, env)
    finally:
        env.close()


def _ids(domain: Domain) -> str:
    rows = []
    for environment in domain.environments:
        needs = [code(environment.install)] if environment.install else []
        needs += [code(f"a2perf data fetch {domain.name}")] if environment.assets else []
        rows.append([code(environment.id), environment.title, environment.summary, ", ".join(needs)])
    if not any(row[-1] for row in rows):
        return table(["id", "title", "what the agent does"], [row[:-1] for row in rows])
    return table(["id", "title", "what the agent does", "needs"], rows)


def _tasks(protocol: Protocol) -> str:
    text = [
        "# Tasks",
        "",
        "A task is an environment with fixed arguments; `--task NAME` runs it. Core tasks count in the overall score "
        f"of [protocol](../reference/protocol.md) {protocol.name}. Returns are means with 95 % intervals; they define "
        "the normalised score: 0 for the floor and 1 for the expert policy.",
        "",
    ]
    for domain in domains().values():
        text += [f"## {domain.title}", "", returns_table(domain.tasks, protocol), ""]
        rows = [
            [
                code(task.name),
                code(task.env_id),
                _mapping(task.kwargs),
                "yes" if task.name in domain.generalization_tasks else "",
            ]
            for task in domain.tasks
        ]
        text += [table(["task", "id", "arguments", "generalization"], rows), ""]
    return "\n".join(text)


def _mapping(values: Mapping[str, Any]) -> str:
    return ", ".join(code(f"{key}={value!r}") for key, value in values.items())


def _data_files() -> str:
    text = [
        "# Data files",
        "",
        "These files are not shipped with a2perf. `a2perf data fetch` downloads them and checks their SHA-256; "
        "`a2perf data list` shows which are present.",
        "",
    ]
    for domain in domains().values():
        rows = [[code(one.name), one.summary, one.licence, code(one.sha256[:16])] for one in domain.assets]
        text += [f"## {domain.title}", ""]
        text += [table(["file", "content", "terms", "SHA-256 begins"], rows) or "No data files.\n", ""]
    return "\n".join(text)
