"""What every test shares: folders of its own, no network, and an account of what was skipped.

Nothing here may touch a user's files: home, cache, data-set and configuration folders point into a temporary folder
before anything of a2perf is imported, and child processes inherit that. ``A2PERF_OFFLINE`` keeps a2perf from fetching;
files that ``make setup`` put into the real cache are copied, read-only, into the tests' own.

A test that needs something a machine can lack says so with ``@pytest.mark.group("chromium")``. Where it is lacking the
test is skipped, the closing table says how to fix that, and ``A2PERF_REQUIRE=chromium,bwrap`` makes it a failure.
``A2PERF_ONLY=tf_agents,sb3`` runs the tests of these groups alone, in the Python that has what they need;
``A2PERF_WITHOUT=nvml,rapl`` deselects groups, for a run in which nothing may be skipped.
"""

from __future__ import annotations

import collections
import functools
import importlib
import importlib.util
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from docs.building.budget import ENGINES
from tests.commands import run_command
from tests.waiting import Child

if TYPE_CHECKING:
    from tests.report.browser import Browser

# Drawn examples are the same in every run: a change is judged by what it did, not by luck. The slow tests search
# further with `--hypothesis-profile search`. No example has a time limit, because machines are loaded.
hypothesis.settings.register_profile("suite", deadline=None, derandomize=True)
hypothesis.settings.register_profile("search", deadline=None, print_blob=True)
hypothesis.settings.load_profile("suite")

REAL_ENVIRONMENT = dict(os.environ)
sys.dont_write_bytecode = True  # byte code in examples/ would change the hashes that the recorded results name
os.umask(0o022)  # files that a test gives to another user, or compares with their modes


# --- folders of our own -----------------------------------------------------------------------------------------------


def _isolate(folder: Path) -> None:
    """Points every variable by which a user's folders are found at ``folder``, and forbids fetching."""
    from a2perf import assets

    real_assets = assets.cache_dir() / "assets"
    if real_assets.is_dir():
        copies = folder / "cache" / "assets"
        shutil.copytree(real_assets, copies, copy_function=_copy_read_only)
    for variable, name in {
        "HOME": "home",
        "XDG_CACHE_HOME": "home/.cache",
        "XDG_CONFIG_HOME": "home/.config",
        "XDG_DATA_HOME": "home/.local/share",
        "A2PERF_CACHE_DIR": "cache",
        "MPLCONFIGDIR": "matplotlib",
        "MINARI_DATASETS_PATH": "minari",
    }.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        os.environ[variable] = str(folder / name)
    os.environ["A2PERF_OFFLINE"] = "1"
    os.environ["MPLBACKEND"] = "Agg"
    # TensorBoard may import TensorFlow in a worker before a test of TF-Agents does, and with the other Keras
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    # one numeric thread a process: the suite itself runs in several
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"
    if not os.environ.get("A2PERF_DATA_DIR"):
        os.environ.pop("A2PERF_DATA_DIR", None)
    of_a_run = ("ROOT_DIR", "SEED", "A2PERF_ENV_ID", "A2PERF_ENV_KWARGS", "A2PERF_ARTIFACTS", "NUM_WEBSITES")
    for variable in (*of_a_run, "GITHUB_ACTIONS"):
        os.environ.pop(variable, None)


def _copy_read_only(source: str, target: str) -> None:
    shutil.copyfile(source, target)
    os.chmod(target, 0o444)


@pytest.fixture(autouse=True)
def _environment_restored() -> Iterator[None]:
    """Gives every test the same environment variables, whatever the one before it set."""
    before = dict(os.environ)
    yield
    for name in set(os.environ) - set(before) - {"PYTEST_CURRENT_TEST"}:
        del os.environ[name]
    os.environ.update({name: value for name, value in before.items() if name != "PYTEST_CURRENT_TEST"})


@pytest.fixture(autouse=True)
def _no_signal_left_ignored() -> Iterator[None]:
    """Fails a test that leaves a signal ignored: children of later tests would inherit that."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    left = [number for number, handler in before.items() if signal.getsignal(number) is signal.SIG_IGN is not handler]
    for number in left:
        signal.signal(number, before[number])
    assert not left, f"the test left {', '.join(number.name for number in left)} ignored"


@pytest.fixture(autouse=True)
def _no_child_left() -> Iterator[None]:
    """Ends the processes that a test has started and, because it failed, not ended."""
    before = len(Child.started)
    yield
    for child in Child.started[before:]:
        child.end()
    del Child.started[before:]


@pytest.fixture(scope="session")
def real_environment() -> Mapping[str, str]:
    """The environment before it was isolated, for the slow tests that install packages as a user would."""
    return dict(REAL_ENVIRONMENT)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout under test."""
    return Path(__file__).resolve().parents[1]


@pytest.fixture
def minimal(tmp_path: Path, repository: Path) -> Path:
    """A copy of the smallest submission, to be changed."""
    ignore = shutil.ignore_patterns("__pycache__")
    return Path(shutil.copytree(repository / "examples" / "minimal", tmp_path / "submission", ignore=ignore))


# --- an engine of our own ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def _docker_engine() -> Iterator[Any]:
    from a2perf.sandbox.container import why_unavailable
    from tests.launch.docker_engine import running_engine

    with running_engine() as engine:
        yield engine
    why_unavailable.cache_clear()


@pytest.fixture
def docker_engine(_docker_engine: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A private engine, which is also what ``DOCKER_HOST`` names."""
    monkeypatch.setenv("DOCKER_HOST", _docker_engine.host)
    return _docker_engine


# --- a tree without engines -------------------------------------------------------------------------------------------

_ROOT = Path(__file__).resolve().parents[1]
_IS_WITHOUT_ENGINES = not any((_ROOT / "a2perf" / "domains" / name).is_dir() for name in ENGINES)
_NAMES_AN_ENGINE = re.compile(
    "web_?navigation|quadruped|circuit_?training|dog_pace|difficulty_level|toy_macro|ariane|chromium|pybullet|"
    r"evaluate_runs|kill_forms|launch\.entries|toy_run|shipped_runs|recorded_runs|\b(WEB|TOY|TROT|minimal)\b",
    re.IGNORECASE,
)
_FIXTURES_WITH_AN_ENGINE = frozenset({"minimal", "submission"})
_NEEDS_AN_ENGINE = re.compile(
    r"'[\w-]+' is not a (known environment|known domain|task of any domain)|No module named 'a2perf\.domains\.\w+'"
)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leaves out the test files that name an engine, if the tree has none: see ``test_without_engines.py``."""
    if not _IS_WITHOUT_ENGINES or not collection_path.name.startswith("test_") or collection_path.suffix != ".py":
        return None
    return _NAMES_AN_ENGINE.search(collection_path.read_text(encoding="utf-8")) is not None or None


# --- groups of tests that a machine can be unfit for ------------------------------------------------------------------


@dataclass(frozen=True)
class Group:
    """What a group of tests needs.

    Attributes:
        lacking: says in a few words what is missing here, or returns None.
        hint: what to do about it.
    """

    lacking: Callable[[], str | None]
    hint: str


def _program(*choices: str) -> Callable[[], str | None]:
    """Requires one program of each choice, such as ``"chromium|google-chrome"``."""

    def lacking() -> str | None:
        missing = [choice for choice in choices if not any(map(shutil.which, choice.split("|")))]
        return f"no {' and no '.join(missing).replace('|', ' or ')} on PATH" if missing else None

    return lacking


def _bubblewrap() -> str | None:
    if shutil.which("bwrap") is None:
        return "no bwrap on PATH"
    probe = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"]
    done = run_command(probe)
    return None if done.returncode == 0 else f"bwrap cannot make namespaces here: {done.stderr.strip()[-120:]}"


def _missing(module: str) -> Callable[[], str | None]:
    """Asks a helper module, whose tests bring an engine or a cluster of their own, what this machine is missing."""

    def lacking() -> str | None:
        answer: str | None = importlib.import_module(module).missing()
        return answer

    return lacking


def _module(*names: str) -> Callable[[], str | None]:
    def lacking() -> str | None:
        missing = [name for name in names if importlib.util.find_spec(name) is None]
        return f"no {' and no '.join(missing)}" if missing else None

    return lacking


def _ariane() -> str | None:
    from a2perf import assets
    from tests.golden.ariane import ARIANE_FILES

    found = assets.available(ARIANE_FILES.values())
    missing = [name for name, asset in ARIANE_FILES.items() if asset.name not in found]
    return f"not on this machine, and not ours to ship: {', '.join(missing)} of Ariane" if missing else None


def _clips() -> str | None:
    from a2perf import assets
    from a2perf.domains.registry import domains

    domain = domains().get("quadruped_locomotion")
    wanted = domain.assets if domain else ()
    missing = [asset.name for asset in wanted if asset.name not in assets.available([asset])]
    return f"{len(missing)} of {len(wanted)} motion clips and policies are not in the cache" if missing else None


def _openenv() -> str | None:
    """The client runs in a Python of its own, because its packages conflict with ours."""
    from packages.serve.tests import openenv_python

    return None if openenv_python.found() else "no .venv-openenv with the package openenv"


def _nvml() -> str | None:
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception as error:  # every failure of the driver means the same here
        return f"no NVIDIA driver answers ({error})"
    return None


def _rapl() -> str | None:
    counters = Path("/sys/class/powercap").glob("intel-rapl:*/energy_uj")
    return None if any(os.access(path, os.R_OK) for path in counters) else "no readable RAPL counter"


GROUPS: dict[str, Group] = {
    "chromium": Group(_program("chromium|chromium-browser|google-chrome"), "`make system` as root on Debian"),
    "bwrap": Group(_bubblewrap, "`make system` as root on Debian; user namespaces must be allowed"),
    "docker": Group(
        _missing("tests.launch.docker_engine"),
        "`apt-get install docker.io` as root on Debian",
    ),
    "slurm": Group(
        _missing("tests.launch.slurm_cluster"),
        "`apt-get install slurmctld slurmd munge`, `pip install submitit`",
    ),
    "ray": Group(_missing("tests.launch.ray_cluster"), "`pip install -e '.[ray]'`"),
    "tf_agents": Group(
        _module("tensorflow", "tf_agents"), "a Python of its own for TensorFlow, see docs/reference/adapters.md"
    ),
    "environments": Group(_module("minigrid", "metaworld", "mo_gymnasium"), "`make environments`"),
    "sb3": Group(_module("stable_baselines3"), "`pip install stable-baselines3`"),
    "sb3_contrib": Group(_module("sb3_contrib"), "`pip install sb3-contrib`"),
    "wandb": Group(_module("wandb"), "`pip install wandb`"),
    "sphinx": Group(_module("sphinx", "myst_parser", "furo"), "`pip install -e '.[dev]'`"),
    "ariane": Group(_ariane, "`python -m tests.golden.regenerate --fetch` where github.com can be reached"),
    "clips": Group(_clips, "`a2perf data fetch quadruped_locomotion` where the package index can be reached"),
    "openenv": Group(_openenv, "`make openenv`, or name a Python that has the package with A2PERF_OPENENV_PYTHON"),
    "latex": Group(
        _program("pdflatex", "pdftotext"),
        "`apt-get install texlive-latex-recommended poppler-utils` on Debian",
    ),
    "pybullet": Group(_module("pybullet"), "CPython 3.11 and `pip install -e '.[quadruped-locomotion]'`"),
    "mujoco": Group(_module("mujoco"), "`pip install mujoco`"),
    "agents": Group(_module("a2perf_agents"), "`make packages`"),
    "competition": Group(_module("a2perf_competition"), "`make packages`"),
    "datasets": Group(_module("a2perf_datasets"), "`make packages`"),
    "mtkahypar": Group(_module("mtkahypar"), "`make packages`"),
    "nvml": Group(_nvml, "a machine with an NVIDIA GPU and its driver"),
    "rapl": Group(_rapl, "a machine that exposes RAPL energy counters to its users"),
    "root": Group(lambda: None if os.geteuid() == 0 else "not root", "run the tests as root"),
}

_lacking = functools.cache(lambda name: GROUPS[name].lacking())


def _named(variable: str) -> set[str]:
    """Returns the groups that a variable names."""
    names = {name.strip() for name in os.environ.get(variable, "").split(",")} - {""}
    if unknown := names - set(GROUPS):
        known = ", ".join(sorted(GROUPS))
        raise pytest.UsageError(f"{variable} names unknown groups: {', '.join(sorted(unknown))}; known are {known}")
    return names


def _required() -> set[str]:
    return _named("A2PERF_REQUIRE")


def _groups_of(item: pytest.Item) -> list[str]:
    return [name for mark in item.iter_markers("group") for name in mark.args]


def pytest_configure(config: pytest.Config) -> None:
    for variable in ("A2PERF_REQUIRE", "A2PERF_ONLY", "A2PERF_WITHOUT"):
        _named(variable)  # an unknown name ends the controller here: pytest-xdist does not show errors of its workers
    # children inherit it when a shell has started the suite in the background, and could then not be interrupted
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix="a2perf-tests-"))
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    _isolate(folder)


_GROUP_OF_LEVEL = {"bubblewrap": "bwrap", "docker": "docker"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if _IS_WITHOUT_ENGINES:
        items[:] = [item for item in items if _FIXTURES_WITH_AN_ENGINE.isdisjoint(item.fixturenames)]
    for item in items:  # a test at a level of the sandbox belongs to the group of what the level needs
        level = getattr(item, "callspec", None) and item.callspec.params.get("level")
        if isinstance(level, str) and level in _GROUP_OF_LEVEL:
            item.add_marker(pytest.mark.group(_GROUP_OF_LEVEL[level]))
    if only := _named("A2PERF_ONLY"):
        others = [item for item in items if only.isdisjoint(_groups_of(item))]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if not only.isdisjoint(_groups_of(item))]
    if without := _named("A2PERF_WITHOUT"):
        config.hook.pytest_deselected(items=[item for item in items if not without.isdisjoint(_groups_of(item))])
        items[:] = [item for item in items if without.isdisjoint(_groups_of(item))]
    for item in items:
        for name in _groups_of(item):
            if name not in GROUPS:
                raise pytest.UsageError(f"{item.nodeid} is in an unknown group {name!r}; add it to tests/conftest.py")


def pytest_runtest_setup(item: pytest.Item) -> None:
    for name in _groups_of(item):
        reason = _lacking(name)
        if reason is not None:
            pytest.skip(reason)


_NEEDS_PYBULLET = re.compile(r"PyBullet, which is not installed|not installed on this host: pybullet")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[Any]:
    report: pytest.TestReport = yield
    # any test may use an id of the quadruped, also in a process of its own, and only CPython 3.11 has PyBullet
    if report.failed and _lacking("pybullet") and _NEEDS_PYBULLET.search(report.longreprtext):
        item.add_marker(pytest.mark.group("pybullet"))
        report.outcome, report.longrepr = "skipped", (str(item.path), 0, f"Skipped: {_lacking('pybullet')}")
    if report.failed and _IS_WITHOUT_ENGINES and (needed := _NEEDS_AN_ENGINE.search(report.longreprtext)):
        report.outcome, report.longrepr = "skipped", (str(item.path), 0, f"Skipped: {needed[0]}")
    if report.skipped and not hasattr(report, "wasxfail"):
        groups = _groups_of(item)
        lacking = [name for name in groups if _lacking(name) is not None] or groups
        report.user_properties.append(("group", ", ".join(lacking) or _room(item)))
        missing = sorted(set(groups) & _required())
        if missing:
            report.outcome = "failed"
            report.longrepr = f"skipped ({_reason(report)}), but A2PERF_REQUIRE names {', '.join(missing)}"
    return report


def _room(item: pytest.Item) -> str:
    """Returns the folder of a test without a group of its own."""
    return item.path.parent.relative_to(Path(__file__).parents[1]).as_posix().removeprefix("tests/")


def _reason(report: pytest.CollectReport | pytest.TestReport) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return str(text).removeprefix("Skipped: ")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints the table of skipped groups: group, count, reason, hint."""
    counted: collections.Counter[tuple[str, str]] = collections.Counter()
    for report in terminalreporter.stats.get("skipped", []):
        group = dict(getattr(report, "user_properties", [])).get("group", "other")
        counted[group, _reason(report)] += 1
    if not counted:
        return
    terminalreporter.section("skipped groups")
    for (group, reason), count in sorted(counted.items()):
        mends = [GROUPS[name].hint for name in group.split(", ") if name in GROUPS]
        line = f"{group:<28} {count:>4}  {reason}"
        terminalreporter.write_line(f"{line}  [hint: {'; '.join(mends)}]" if mends else line)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A headless Chromium; one per module, since starting it takes seconds."""
    from tests.report.browser import Browser

    started = Browser(tmp_path_factory.mktemp("profile"))
    yield started
    started.close()
