"""How a number is rounded, scaled and written for people.

A value with a spread is rounded to the spread's second significant digit. Without a spread, times, energies and memory
keep three significant digits and all other numbers four. Below 0.01 and from ten million on, a power of ten is used.
Times, memory and energies are scaled: recorded kilowatt hours print as µJ to J, mWh, Wh or kWh. ``row_scale`` chooses
one unit for all numbers of a row or column, since numbers of different units are hard to compare.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from a2perf.runs.seed_groups import units_of

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
    # 0.1 mWh is 0.36 J: below that, joules need fewer zeros
    "kWh": (
        (1.0, 1.0, "kWh"),
        (1e-3, 1e-3, "Wh"),
        (1e-7, 1e-6, "mWh"),
        (1e-2 / 3.6e6, 1 / 3.6e6, "J"),
        (1e-4 / 3.6e6, 1e-3 / 3.6e6, "mJ"),
        (0.0, 1e-6 / 3.6e6, "µJ"),
    ),
    "bytes": ((2.0**30, 2.0**30, "GiB"), (2.0**20, 2.0**20, "MiB"), (2.0**10, 2.0**10, "KiB"), (0.0, 1.0, "bytes")),
}
DIMENSIONLESS = "1"
"""Unit of a pure number, which is printed without it."""
ESTIMATED = {"estimated": "estimated by a model", "mixed": "measured in some runs, estimated in others"}
"""Provenances that are marked with ≈; everything else was measured or recorded."""
_SMALL, _LARGE = 0.01, 1e7
_DIGITS, _MEASURED_DIGITS = (4, 6), (3, 4)
"""Most significant digits without and beside a spread; an instrument's numbers carry fewer."""
_MEASURED = {name for scales in _SCALES.values() for _, _, name in scales}
_ROUNDING = 1e-9
"""Equal values have a spread of a few roundings of theirs."""
_ZERO = 1e-290
"""A power of ten that divides a smaller number is zero."""
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_MINUS = "−"


class Scale(NamedTuple):
    """One unit for a whole row or column: numbers are divided by ``factor`` and named ``unit``."""

    factor: float
    unit: str


class Written(NamedTuple):
    """A number ready to print in any format; all parts have one unit.

    Attributes:
        value, spread, low, high: with a minus sign where negative; empty when there is none.
        power: power of ten that all of them are multiplied by, ``"× 10⁻⁶"``, or ``""``.
    """

    unit: str
    value: str
    spread: str = ""
    low: str = ""
    high: str = ""
    power: str = ""

    def text(self) -> str:
        """Returns value, spread and power of ten as ``(1.20 ± 0.05) × 10⁻⁶``."""
        bare = f"{self.value} ± {self.spread}" if self.spread else self.value
        return f"({bare}) {self.power}" if self.spread and self.power else f"{bare} {self.power}".rstrip()

    def interval(self) -> str:
        """Returns ``[1.10, 1.30]``, with the power of ten; empty when there is none."""
        return f"[{self.low}, {self.high}] {self.power}".rstrip() if self.low else ""


def power_of_ten(exponent: int) -> str:
    """Returns ``10⁻⁶`` for -6."""
    return f"10{str(exponent).translate(_SUPERSCRIPT)}"


def row_scale(values: Iterable[float], unit: str) -> Scale:
    """Returns one unit for all values of a row or column: the one that suits their median magnitude.

    A unit that is not scaled takes a power of ten for medians below 0.01 or from ten million on: ``"10⁻⁴ W"``.
    """
    magnitudes = sorted(abs(value) for value in values if math.isfinite(value) and abs(value) > _ZERO)
    if not magnitudes:
        return Scale(*_scale(0.0, unit))
    middle = magnitudes[len(magnitudes) // 2]
    factor, name = _scale(middle, unit)
    if _SMALL <= middle / factor < _LARGE:
        return Scale(factor, name)
    exponent = math.floor(math.log10(middle / factor))
    return Scale(factor * 10.0**exponent, f"{power_of_ten(exponent)} {name}".rstrip())


def written(
    value: float, scale: Scale, spread: float | None = None, interval: tuple[float, float] | None = None
) -> Written:
    """Rounds a value, its spread and its interval alike.

    Args:
        value: in the unit before scaling, as are the others; NaN and infinities are written as words.
        spread: None or not finite when there is none.
    """
    value = 0.0 if abs(value) <= _ZERO else value / scale.factor
    if math.isnan(value):
        return Written(scale.unit, "not a number")
    if math.isinf(value):
        return Written(scale.unit, "∞" if value > 0 else f"{_MINUS}∞")
    spread = spread / scale.factor if spread is not None and math.isfinite(spread) else None
    if spread is not None and spread < _ROUNDING * abs(value):
        spread = 0.0
    ends = [end / scale.factor for end in interval] if interval is not None else []
    largest = max(abs(value), spread or 0.0)
    power = ""
    if 0 < largest < _SMALL or largest >= _LARGE:
        exponent = math.floor(math.log10(largest))
        value, spread = value / 10.0**exponent, None if spread is None else spread / 10.0**exponent
        ends, power = [end / 10.0**exponent for end in ends], f"× {power_of_ten(exponent)}"
    decimals = _decimals(value, spread, scale.unit)
    if power:
        decimals = min(max(decimals, 2), 4)
    low, high = [_write(end, decimals) for end in ends] or ("", "")
    beside = "" if spread is None else "0" if spread == 0 else _write(spread, decimals)
    return Written(scale.unit, _write(value, decimals), beside, low, high, power)


def _decimals(value: float, spread: float | None, unit: str) -> int:
    """Returns the decimals of a value: down to its spread's second digit, within the digits that the unit allows."""
    without, beside = _MEASURED_DIGITS if unit in _MEASURED else _DIGITS
    magnitude = abs(value)
    if spread:
        finest = 6 if value == 0 else max(0, beside - 1 - math.floor(math.log10(magnitude)))
        return min(max(0, 1 - math.floor(math.log10(spread))), finest)
    if value == 0:
        return 0
    if magnitude == round(magnitude) and magnitude < 1e5:
        return 0
    return max(0, without - 1 - math.floor(math.log10(magnitude)))


def rounded(value: float, unit: str, spread: float | None = None) -> Written:
    """Scales and rounds one value and its spread, both in ``unit``; as ``written``, with a unit that suits this value.

    Seconds (``"s"``), ``"bytes"``, ``"kWh"`` and ``"J"`` are scaled, all other units kept.
    """
    factor, name = _scale(value if value != 0 else (spread or 0.0), unit) if math.isfinite(value) else (1.0, unit)
    return written(value, Scale(factor, name), spread)


def marks_of(provenance: str | None, *, noisy: bool = False) -> tuple[str, str]:
    """Returns the marks before a number and what they mean: ≈ estimated by a model, ⚠ measured on a noisy host."""
    estimated, doubtful = ESTIMATED.get(provenance or "", ""), "measured on a noisy host" if noisy else ""
    return "≈" * bool(estimated) + "⚠" * noisy, ", ".join(filter(None, (estimated, doubtful)))


def counted(count: int, noun: str) -> str:
    """Returns ``"1 run"`` or ``"3 runs"``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def sample_text(policies: Sequence[str], episodes: Sequence[int]) -> str:
    """Returns what an interval is over: ``"3 runs"``, or ``"3 trained policies, 20 episodes each"``.

    Args:
        policies: hash of the trained policy of each run, ``""`` if unknown.
        episodes: number of episodes of each run.
    """
    units = units_of(policies)
    if len(policies) < 2 or not any(policies):
        return counted(len(policies), "run")
    if len(set(policies)) == 1:
        return f"{len(policies)} runs of 1 trained policy"
    counts = sorted(sum(episodes[index] for index in unit) for unit in units)
    each = counted(counts[0], "episode") if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]} episodes"
    return f"{len(units)} trained policies, {each} each"


def rounded_text(value: float, unit: str = "", spread: float | None = None) -> str:
    """Returns a value with its spread and unit, each as in ``rounded``: ``"12.3 ± 0.4 ms"``."""
    number = rounded(float(value), unit, spread)
    return f"{number.text()} {number.unit}".rstrip()


def interval_text(interval: tuple[float, float] | None) -> str:
    """Returns the interval of a normalised score, ``"[0.85, 0.97]"``; nothing without one."""
    return "" if interval is None else "[{}, {}]".format(*map(normalised_text, interval))


def normalised_text(score: float | None) -> str:
    """Returns a normalised score with three decimals, more than which few seeds cannot support; ``–`` without one."""
    if score is None:
        return "–"
    text = f"{abs(score):.3f}"
    return f"{_MINUS}{text}" if score < 0 and float(text) else text


def _scale(value: float, unit: str) -> tuple[float, str]:
    if unit not in _SCALES:
        return 1.0, "" if unit == DIMENSIONLESS else unit
    if value == 0:
        return 1.0, unit
    for least, factor, name in _SCALES[unit]:
        if abs(value) >= least:
            return factor, name
    raise AssertionError("the last scale starts at zero")


def _write(value: float, decimals: int) -> str:
    text = f"{abs(value):.{decimals}f}"
    whole, point, fraction = text.partition(".")
    if len(whole) > 4:
        whole = f"{int(whole):,}".replace(",", "\u202f")
    return f"{_MINUS if value < 0 and float(text) else ''}{whole}{point}{fraction}"
