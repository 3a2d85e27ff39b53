"""Turns an installer's error output into an error of the submission, of the configuration, or of the host."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from packaging.requirements import Requirement

from a2perf.errors import ConfigError, InfrastructureError, SubmissionError, UserError
from a2perf.submission.evaluator.python_env.requirements import RequirementLine

_SHOWN_LINES = 12
_SHOWN_CHARACTERS = 400
_READ_CHARACTERS = 64 * 1024
_NETWORK = re.compile(
    r"error sending request|dns error|failed to lookup|connection (refused|reset|error)|timed? ?out|"
    r"NewConnectionError|ConnectTimeoutError|ReadTimeoutError|Temporary failure in name resolution|tls handshake|"
    r"HTTP status server error",
    re.IGNORECASE,
)
_BUILD = re.compile(
    r"Failed to build|build backend|Failed to (?:generate|prepare) metadata|metadata-generation-failed|"
    r"subprocess-exited"
)
_BROKEN = re.compile(
    r"Failed to (?:read|parse|extract|unzip|install|prepare|unpack)|(?:wheel|metadata|zip|archive)\b.* (?:is )?invalid|"
    r"invalid (?:wheel|metadata|zip)|Metadata (?:field|file|version)|METADATA|RECORD|not a zip|corrupt|reserved name|"
    r"InvalidWheel|BadZipFile|URL dependenc|invalid package format|structure of .* was invalid",
    re.IGNORECASE,
)


def explain(output: str, lines: Sequence[RequirementLine], base_requirements: Sequence[str], log: Path) -> UserError:
    """Returns an error that names the package and its line in the requirements."""
    output = output[-_READ_CHARACTERS:]
    blamed = [line for line in lines if line.name and _names(line.name, output)]
    last = tail(output)
    listed = "\n".join(f"  {line.place}: {line.text}" for line in blamed)
    # Builds first: a package controls what its build prints and could make a failure look like one of the network.
    if _BUILD.search(output):
        return SubmissionError(f"a package could not be built:\n{last}", hint=f"require a wheel instead; see {log}")
    if _NETWORK.search(output):
        return InfrastructureError(
            f"the package index could not be reached:\n{last}",
            hint=f"provide wheels with PIP_FIND_LINKS=DIR, or UV_FIND_LINKS=DIR if uv names the index; see {log}",
        )
    if _BROKEN.search(output):
        return SubmissionError(f"a package is broken:\n{listed}\n{last}", hint=f"require another version; see {log}")
    if not blamed:
        return ConfigError(f"the requirements cannot be installed:\n{last}", hint=f"see {log}")
    own = [text for text in base_requirements if _names(Requirement(text).name, output)]
    beside = f" (a2perf itself needs {', '.join(own)})" if own else ""
    return ConfigError(
        f"these requirements cannot be installed together{beside}:\n{listed}\n{last}"
        if len(blamed) > 1 or own
        else f"{blamed[0].place}: {blamed[0].text} cannot be installed:\n{last}",
        hint=f"require versions that exist as wheels for this Python; see {log}",
    )


def tail(output: str) -> str:
    """Returns the last lines of an output, shortened."""
    kept = [line.rstrip()[:_SHOWN_CHARACTERS] for line in output.splitlines() if line.strip()]
    return "\n".join(kept[-_SHOWN_LINES:])


def clean(output: str, secrets: Sequence[str]) -> str:
    """Returns output without control characters and without the credentials of an index."""
    for secret in secrets:
        output = output.replace(secret, "***")
    return "".join(
        char if char in "\n\t" or char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in output.replace("\r\n", "\n")
    )


def _names(package: str, output: str) -> bool:
    pattern = re.escape(package).replace(r"\-", "[-_.]+")
    return re.search(rf"(?<![\w.-]){pattern}(?![\w-])", output, re.IGNORECASE) is not None
