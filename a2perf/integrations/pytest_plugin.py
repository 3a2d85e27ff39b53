"""The pytest plug-in: ``@pytest.mark.a2perf`` makes a performance test of a function that returns a policy or numbers.

Installed packages load it in every run of pytest, so this module imports nothing of a2perf before a marked test exists.
``-p no:a2perf`` switches it off.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from a2perf.integrations.performance_mark import PerformanceMark

MARK = "a2perf"
_SECTION = "a2perf"
_HELP = (
    "a2perf(task, reaches, seeds=1, passing=None, episodes=None, metric='returns', direction=None, options=None): "
    "performance test. The function returns a policy for the task, or numbers if no task is given; it is called once "
    "per seed (argument: seed). At least `passing` of the seeds (default: all) must reach `reaches`."
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options of the plug-in."""
    group = parser.getgroup("a2perf", "a2perf performance tests")
    group.addoption(
        "--a2perf-seeds", type=int, metavar="N",
        help="run N seeds in each performance test; the required share of passing seeds stays",
    )  # fmt: skip
    group.addoption(
        "--a2perf-root", metavar="DIR", help="record the runs of performance tests below DIR, not in temporary folders"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Registers the mark and checks the options."""
    config.addinivalue_line("markers", _HELP)
    seeds = config.getoption("--a2perf-seeds")
    if seeds is not None and seeds < 1:
        raise pytest.UsageError(f"--a2perf-seeds {seeds} leaves no run; give a positive number")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Supplies the argument ``seed``, which is not a fixture."""
    if metafunc.definition.get_closest_marker(MARK) is not None and "seed" in metafunc.fixturenames:
        hidden = getattr(pytest, "HIDDEN_PARAM", "seeds")  # pytest 8.4
        metafunc.parametrize("seed", [0], ids=[hidden])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Checks every mark before the first test runs.

    Raises:
        pytest.UsageError: a mark has a wrong argument or names an unknown task.
    """
    problems = []
    for item in items:
        if item.get_closest_marker(MARK) is None:
            continue
        from a2perf.errors import UserError

        try:
            _mark_of(item)
        except UserError as error:
            problems.append(f"{item.nodeid}: {error}")
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
            problems.append(f"{item.nodeid}: a performance test is a plain function, not a coroutine function")
    if problems:
        raise pytest.UsageError("\n".join(problems))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a performance test instead of a plain call of its function."""
    if pyfuncitem.get_closest_marker(MARK) is None:
        return None
    from a2perf.errors import UserError
    from a2perf.integrations.performance_mark import run_seeds

    mark = _mark_of(pyfuncitem)
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

    def call(seed: int) -> object:
        given = {**arguments, "seed": seed} if "seed" in arguments else arguments
        return pyfuncitem.obj(**given)

    try:
        outcome = run_seeds(mark, call, pyfuncitem.name, _root(pyfuncitem))
    except UserError as error:
        pytest.fail(str(error), pytrace=False)
    pyfuncitem.user_properties.extend(outcome.properties())
    pyfuncitem.add_report_section("call", _SECTION, outcome.text())
    if not outcome.passed:
        pytest.fail("\n".join([outcome.sentence(), *outcome.logs()]), pytrace=False)
    return True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints the seeds, values, costs and bundles of every performance test."""
    found = [
        (report.nodeid, content)
        for reports in (terminalreporter.getreports("passed"), terminalreporter.getreports("failed"))
        for report in reports
        for name, content in getattr(report, "sections", ())
        if name == f"Captured {_SECTION} call"
    ]
    if not found:
        return
    terminalreporter.section("a2perf performance tests")
    for nodeid, content in sorted(found):
        terminalreporter.write_line(nodeid)
        for line in content.splitlines():
            terminalreporter.write_line(f"  {line}".rstrip())


def _mark_of(item: pytest.Item) -> PerformanceMark:
    from a2perf.integrations.performance_mark import read_mark

    mark = item.get_closest_marker(MARK)
    assert mark is not None
    return read_mark(mark.args, mark.kwargs, seeds=item.config.getoption("--a2perf-seeds"))


def _root(item: pytest.Function) -> Path:
    """Returns the folder for the runs of a test; it does not exist yet or holds the runs of the same test."""
    from a2perf.integrations.performance_mark import folder_name

    given = item.config.getoption("--a2perf-root")
    if given is not None:
        return Path(given).absolute() / folder_name(item.nodeid)
    factory = item._request.getfixturevalue("tmp_path_factory")
    folder: Path = factory.mktemp(f"a2perf-{folder_name(item.name)}")
    return folder
