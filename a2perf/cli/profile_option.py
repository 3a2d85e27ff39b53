"""``--profile``: the set of formulas that runs are scored with."""

from __future__ import annotations

import click

_OLD_NAME = "a2perf"


class _Profile(click.Choice):  # type: ignore[type-arg]  # generic from click 8.2 on only
    """The profiles; also accepts the earlier name of ``upstream``."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(super().convert("upstream" if value == _OLD_NAME else value, param, ctx))


PROFILE_OPTION = click.option(
    "--profile", type=_Profile(("corrected", "upstream")), default="corrected", show_default=True,
    help="Formulas of metrics: corrected, or as in the upstream platform.",
)  # fmt: skip
