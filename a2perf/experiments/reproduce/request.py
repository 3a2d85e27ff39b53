"""A request of `a2perf reproduce` from options in words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from a2perf.errors import ConfigError
from a2perf.experiments.reproduce.claims import parse_claim
from a2perf.experiments.reproduce.rebuild import RebuildOptions
from a2perf.experiments.reproduce.reproduction import MAX_RUNS, ReproduceRequest
from a2perf.launch.run_spec import Resources
from a2perf.runs.reproduction import Outcome
from a2perf.submission.run_options import RunOptions

FAIL_ON: dict[str, tuple[Outcome, ...]] = {
    "refuted": ("REFUTED", "REFUSED"),
    "inconclusive": ("REFUTED", "REFUSED", "INCONCLUSIVE"),
    "unchecked": ("REFUTED", "REFUSED", "INCONCLUSIVE", "NOT CHECKED"),
}
"""The verdicts that fail, by value of ``--fail-on``."""


def request_of(
    paths: Sequence[Path], *, claims: Sequence[str] = (), train: bool = False, submissions: Sequence[Path] = (),
    allow_changed: bool = False, trust_bundle: bool = False, entry: str | None = None, sample_size: str | None = None,
    sample_seed: int = 0, max_reruns: int = MAX_RUNS, output: Path | None = None, key: Path | None = None,
    force: bool = False, options: RunOptions | None = None, resources: Resources | None = None,
) -> ReproduceRequest:  # fmt: skip
    """Returns a request; the arguments are the options of the command.

    Raises:
        ConfigError: a claim is not valid or given twice, or an option has an impossible value.
    """
    parsed = [parse_claim(text) for text in claims]
    texts = [claim.text for claim in parsed]
    if repeated := [text for text in dict.fromkeys(texts) if texts.count(text) > 1]:
        raise ConfigError(f"the claim {repeated[0]!r} is given twice", hint="give each claim once")
    if allow_changed and not submissions:
        raise ConfigError("--allow-changed needs --submission DIR", hint="name the folder with the code that may run")
    name, _, task = (entry or "").partition(":")
    return ReproduceRequest(
        paths=tuple(paths),
        output=output,
        claims=tuple(parsed),
        rebuild=RebuildOptions(
            submissions=tuple(submissions), allow_changed=allow_changed, trust_bundle=trust_bundle, train=train,
            options=options or RunOptions(), resources=resources or Resources(),
        ),
        submission=name,
        task=task,
        sample=sample_size,
        sample_seed=sample_seed,
        max_runs=max_reruns,
        key=key,
        force=force,
    )  # fmt: skip
