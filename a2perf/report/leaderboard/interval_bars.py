"""Small drawings of a score and its interval for the cells of tables."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from a2perf.report.leaderboard.scoring import Score

_WIDTH, _MARGIN = 112, 5


def interval_bar(score: Score, least: float, most: float) -> Markup:
    """Returns a drawing of a score and its interval on a scale with marks at 0 (random) and 1 (expert).

    Args:
        score: normalised; without a value the drawing is empty.
    """
    if score.value is None or not score.normalised:
        return Markup("")

    def at(value: float) -> str:
        share = (min(max(value, least), most) - least) / (most - least)
        return f"{_MARGIN + share * (_WIDTH - 2 * _MARGIN):.1f}"

    low = score.value if score.low is None else score.low
    high = score.value if score.high is None else score.high
    return Markup(  # numbers only
        f'<svg class="interval" width="{_WIDTH}" height="16" viewBox="0 0 {_WIDTH} 16" aria-hidden="true">'
        f'<path class="scale" d="M{at(0)} 2v12M{at(1)} 2v12M{at(0)} 8H{at(1)}"/>'
        f'<path class="range" d="M{at(low)} 8H{at(high)}"/><circle cx="{at(score.value)}" cy="8" r="3.6"/></svg>'
    )


def scale_of(scores: Sequence[Score]) -> tuple[float, float]:
    """Returns the ends of a scale that shows all scores, 0 and 1."""
    ends = [end for score in scores for end in (score.low, score.high, score.value) if end is not None]
    return min([0.0, *ends]), max([1.0, *ends])
