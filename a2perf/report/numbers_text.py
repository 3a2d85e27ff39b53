"""How a number is rounded, scaled and written for people.

A value with a spread is rounded to the spread's second significant digit, any other to four significant digits.
Seconds, bytes and joules are scaled to the unit in which they are read most easily; energy stays in kilowatt hours, so
that rows compare.
"""

from __future__ import annotations

import math
from typing import NamedTuple

_SCALES: dict[str, tuple[tuple[float, float, str], ...]] = {
    # unit: (from this magnitude on, divide by, name), largest first
    "s": (
        (7200.0, 3600.0, "h"),
        (120.0, 60.0, "min"),
        (1.0, 1.0, "s"),
        (1e-3, 1e-3, "ms"),
        (1e-6, 1e-6, "µs"),
        (0.0, 1e-9, "ns"),
    ),
    "J": ((1e6, 1e6, "MJ"), (1e3, 1e3, "kJ"), (0.0, 1.0, "J")),
    "bytes": ((2.0**30, 2.0**30, "GiB"), (2.0**20, 2.0**20, "MiB"), (2.0**10, 2.0**10, "KiB"), (0.0, 1.0, "bytes")),
}
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_MINUS = "−"


class Shown(NamedTuple):
    """A number ready to print: value and spread in the same unit; the spread is empty when there is none."""

    value: str
    spread: str
    unit: str


def shown(value: float, unit: str, spread: float | None = None) -> Shown:
    """Scales, rounds and writes a value and its spread.

    Args:
        value: in ``unit``; NaN and infinities are written as words.
        unit: seconds (``"s"``), ``"bytes"`` and joules (``"J"``) are scaled, all others kept.
        spread: in ``unit``.
    """
    if not math.isfinite(value):
        return Shown(_not_finite(value), "", unit)
    factor, name = _scale(value if value != 0 else (spread or 0.0), unit)
    value = value / factor
    if spread is None or not math.isfinite(spread):
        return Shown(_write(value, _decimals(value, 4)), "", name)
    spread = spread / factor
    if max(abs(value), spread) >= 1e6 or 0 < max(abs(value), spread) < 1e-3:
        return Shown(_write(value, None), _write(spread, None), name)
    finest = 6 if value == 0 else max(0, 5 - math.floor(math.log10(abs(value))))
    wanted = _decimals(value, 4) if spread == 0 else max(0, 1 - math.floor(math.log10(spread)))
    decimals = finest if wanted is None else min(wanted, finest)
    return Shown(_write(value, decimals), _write(spread, decimals), name)


def _scale(value: float, unit: str) -> tuple[float, str]:
    if unit not in _SCALES:
        return 1.0, unit
    if value == 0:
        return 1.0, unit
    for least, factor, name in _SCALES[unit]:
        if abs(value) >= least:
            return factor, name
    raise AssertionError("the last scale starts at zero")


def _decimals(value: float, significant: int) -> int | None:
    """Returns the decimals that keep ``significant`` digits, or None where powers of ten read better."""
    if value == 0:
        return 0
    magnitude = abs(value)
    if magnitude < 1e-3 or magnitude >= 1e7:
        return None
    if magnitude == round(magnitude) and magnitude < 1e5:
        return 0
    return max(0, significant - 1 - math.floor(math.log10(magnitude)))


def _write(value: float, decimals: int | None) -> str:
    if decimals is not None:
        text = f"{abs(value):.{decimals}f}"
        whole, _, fraction = text.partition(".")
        if len(whole) > 4:
            whole = f"{int(whole):,}".replace(",", "\u202f")
        text = whole if not fraction else f"{whole}.{fraction}"
        is_zero = not any(digit in "123456789" for digit in text)
    elif value == 0:
        text, is_zero = "0", True
    else:
        mantissa, exponent = f"{abs(value):.2e}".split("e")
        text, is_zero = f"{mantissa}\u202f×\u202f10{str(int(exponent)).translate(_SUPERSCRIPT)}", False
    return f"{_MINUS}{text}" if value < 0 and not is_zero else text


def _not_finite(value: float) -> str:
    if math.isnan(value):
        return "not a number"
    return "∞" if value > 0 else f"{_MINUS}∞"
