"""Verdicts as JUnit XML, the format of test results that CI services read.

A case is a test: a candidate on a task, a performance test, a phase of a smoke test. ``report.github`` writes the same
cases as annotations of a workflow.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from a2perf.errors import UserError
from a2perf.plain_text import terminal_text
from a2perf.storage import write_atomic

Outcome: TypeAlias = Literal["passed", "failed", "skipped", "error"]
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ELEMENTS = {"failed": "failure", "skipped": "skipped", "error": "error"}


@dataclass(frozen=True)
class VerdictCase:
    """One judged thing.

    Attributes:
        kind: the verdict in the words of its tool, ``"REGRESSION"``.
        message: the reason in one sentence; empty for a case that passed.
        properties: numbers by name; floats are written with all digits.
        group: class name of the test; by default the name of its suite.
        seconds: how long it took, None if unknown.
    """

    name: str
    outcome: Outcome
    kind: str = ""
    message: str = ""
    text: str = ""
    properties: Mapping[str, object] = field(default_factory=dict)
    output: str = ""
    group: str = ""
    seconds: float | None = None


@dataclass(frozen=True)
class VerdictSuite:
    """Cases that belong together.

    Attributes:
        name: of the candidate with its baseline, or of the tool.
        timestamp: ISO 8601; empty if unknown.
    """

    name: str
    cases: tuple[VerdictCase, ...]
    properties: Mapping[str, object] = field(default_factory=dict)
    timestamp: str = ""


def junit_document(given: VerdictSuite | Sequence[VerdictSuite]) -> str:
    r"""Returns one suite, or several below one element, as an XML document.

    Characters that XML cannot hold are written as escapes, such as ``\x1b``.
    """
    if isinstance(given, VerdictSuite):
        root = _suite(given)
    else:
        root = ET.Element(
            "testsuites", {"name": "a2perf", **_counts([case for suite in given for case in suite.cases])}
        )
        root.extend([_suite(suite) for suite in given])
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def write_junit(path: Path, suites: Sequence[VerdictSuite]) -> None:
    """Writes suites as a JUnit file.

    Raises:
        UserError: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, junit_document(suites))
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}", hint="give another --junit FILE") from error


def _suite(suite: VerdictSuite) -> ET.Element:
    attributes = {"name": _text(suite.name), **_counts(suite.cases)}
    if suite.timestamp:
        attributes["timestamp"] = _text(suite.timestamp)
    element = ET.Element("testsuite", attributes)
    _add_properties(element, suite.properties)
    for case in suite.cases:
        attributes = {"classname": _text(case.group or suite.name), "name": _text(case.name)}
        if case.seconds is not None:
            attributes["time"] = f"{case.seconds:.3f}"
        test = ET.SubElement(element, "testcase", attributes)
        _add_properties(test, case.properties)
        if case.outcome != "passed":
            details = {"message": _text(case.message), "type": _text(case.kind or case.outcome)}
            ET.SubElement(test, _ELEMENTS[case.outcome], details).text = _text(case.text or case.message)
        if case.output:
            ET.SubElement(test, "system-out").text = _text(case.output)
    return element


def _add_properties(parent: ET.Element, properties: Mapping[str, object]) -> None:
    known = {name: value for name, value in properties.items() if value is not None and value != ""}
    if not known:
        return
    holder = ET.SubElement(parent, "properties")
    for name, value in known.items():
        written = repr(value) if isinstance(value, float) else str(value)
        ET.SubElement(holder, "property", {"name": _text(name), "value": _text(written)})


def _counts(cases: Sequence[VerdictCase]) -> dict[str, str]:
    outcomes = [case.outcome for case in cases]
    seconds = [case.seconds for case in cases if case.seconds is not None]
    counts = {
        "tests": str(len(cases)),
        "failures": str(outcomes.count("failed")),
        "errors": str(outcomes.count("error")),
        "skipped": str(outcomes.count("skipped")),
    }
    return {**counts, "time": f"{sum(seconds):.3f}"} if seconds else counts


def _text(text: str) -> str:
    return _NOT_IN_XML.sub(lambda match: match.group().encode("unicode_escape").decode(), terminal_text(text))
