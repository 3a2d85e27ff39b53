"""Both profiles against recorded values, against plain re-implementations, and under changes that must not matter."""

from __future__ import annotations

import math
import platform
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2perf.errors import ConfigError, UserError
from a2perf.metrics.profiles import lowpass
from a2perf.metrics.profiles.curves import clean
from a2perf.metrics.profiles.reliability import rollouts, training
from a2perf.metrics.profiles.reliability_corrected import slopes, windowed
from a2perf.metrics.statistics import cvar, drawdown, iqr, mad, ranks, std
from tests.golden.recorded import cases
from tests.metrics import plain_reliability as plain

EARLIER_NAMES = {
    "IqrAcrossRuns": "dispersion_across_runs",
    "IqrWithinRuns": "dispersion_within_runs",
    "LowerCVaROnDiffs": "short_term_risk",
    "LowerCVaROnDrawdown": "long_term_risk",
    "LowerCVarOnAcross": "risk_across_runs",
}
STATISTICS = {"Iqr": iqr, "Mad": mad, "Stddev": std}


FILTER_NOISE = 5e-3
"""Of the largest value of a curve: the upstream filter is ill-conditioned, and another processor rounds otherwise."""


def filtered(curves: Any) -> float:
    """Tolerance of filtered values against plain loops, which solve the same equations in another order."""
    exact = platform.machine() in ("x86_64", "AMD64")
    return 1e-9 if exact else FILTER_NOISE * max(float(np.abs(values).max()) for _, values in curves)


def _golden() -> dict[str, Any]:
    return dict(cases("reliability")["cases"])


def _random_curves(seed: int, runs: int = 4, points: int = 40, *, step: float = 3.0) -> list[Any]:
    generator = np.random.default_rng(seed)
    steps = np.cumsum(generator.integers(1, 2 * step, size=points))
    return [(steps, np.cumsum(generator.normal(0.3, 1.0, size=points))) for _ in range(runs)]


# --- recorded values --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["tiny3x5", "const3x12", "uneven4x20"])
def test_a2perf_profile_repeats_the_earlier_platform(case: str) -> None:
    recorded = _golden()[case]
    scores = training(recorded["curves"], "upstream")
    for name, key in EARLIER_NAMES.items():
        expected = recorded["a2perf"][key]
        if not isinstance(expected, dict):
            assert scores[name].value == pytest.approx(expected, rel=1e-9, abs=1e-12)
        elif "error" in expected:
            assert scores[name].value is None
            assert "not enough data" in str(scores[name].condition)
        else:
            noise = FILTER_NOISE * max(np.abs(values).max() for _, values in recorded["curves"])
            allowed = noise if name == "IqrAcrossRuns" else 1e-9
            assert scores[name].value == pytest.approx(expected["mean"], rel=1e-9, abs=allowed)
            assert scores[name].spread == pytest.approx(expected["std"], rel=1e-9, abs=allowed)


@pytest.mark.parametrize("case", ["tiny3x5", "const3x12", "uneven4x20"])
def test_corrected_parts_repeat_the_library_both_descend_from(case: str) -> None:
    recorded = _golden()[case]
    google, window = recorded["google"], recorded["google_window"]
    curves = [clean(*curve) for curve in recorded["curves"]]
    matrix = np.stack([curve.values for curve in curves])
    for kind, statistic in STATISTICS.items():
        np.testing.assert_allclose(statistic(matrix, axis=0), google[f"{kind}AcrossRuns"], rtol=1e-9, atol=1e-12)
        for curve, expected in zip(curves, google[f"{kind}WithinRuns|window={window}"], strict=True):
            np.testing.assert_allclose(windowed(curve, statistic, window), expected, rtol=1e-9, atol=1e-12)
    scores = training(recorded["curves"], "corrected")
    for name, key, sign in (
        ("LowerCVaROnDiffs", "LowerCVaROnDiffs|alpha=0.05", -1),
        ("UpperCVaROnDiffs", "UpperCVaROnDiffs|alpha=0.05", 1),
        ("LowerCVaROnDrawdown", "UpperCVaROnDrawdown|alpha=0.05", 1),
        ("MaxDrawdown", "MaxDrawdown", 1),
    ):
        np.testing.assert_allclose(scores[name].per_run, sign * np.array(google[key]), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        scores["MedianPerfDuringTraining"].per_run, np.ravel(google["MedianPerfDuringTraining|whole_run"]), rtol=1e-9
    )
    for curve, differences, drop in zip(curves, google["differences"], google["drawdown"], strict=True):
        np.testing.assert_allclose(slopes(curve), differences, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(drawdown(curve.values), drop, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("case", ["tiny3x5", "uneven4x20"])
def test_normalisation_repeats_the_library_both_descend_from(case: str) -> None:
    recorded = _golden()[case]
    google, window = recorded["google"], recorded["google_window"]
    by_range = training(recorded["curves"], "corrected", "curve_range")
    for name, key, sign in (
        ("LowerCVaROnDiffs", "LowerCVaROnDiffs|alpha=0.05|baseline=curve_range", -1),
        ("LowerCVaROnDrawdown", "UpperCVaROnDrawdown|alpha=0.05|baseline=curve_range", 1),
    ):
        np.testing.assert_allclose(by_range[name].per_run, sign * np.array(google[key]), rtol=1e-9, atol=1e-12)
    for kind in ("Iqr", "Mad", "Stddev"):
        rows = google[f"{kind}WithinRuns|window={window}|baseline=curve_range"]
        for (steps, values), row in zip(recorded["curves"], rows, strict=True):
            found = windowed(clean(steps, values), STATISTICS[kind], window)
            np.testing.assert_allclose(found / (np.percentile(values, 95.0) - values[0]), row, rtol=1e-9)
        across = np.mean(google[f"{kind}AcrossRuns|baseline=curve_range"])
        assert by_range[f"{kind}AcrossRuns"].value == pytest.approx(across, rel=1e-9)
    assert by_range["LowerCVarOnAcross"].value == pytest.approx(
        google["LowerCVaROnAcross|alpha=0.05|baseline=curve_range"][-1], rel=1e-9
    )
    by_scores = training(recorded["curves"], "corrected", (0.0, 10.0))
    np.testing.assert_allclose(
        by_scores["MedianPerfDuringTraining"].per_run,
        np.ravel(google["MedianPerfDuringTraining|baseline=(0,10)"]),
        rtol=1e-9,
    )


# --- plain re-implementations -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_a2perf_profile_equals_plain_loops(seed: int) -> None:
    curves = _random_curves(seed, points=(12, 40, 75)[seed % 3])
    scores = training(curves, "upstream")
    for name, expected in plain.a2perf(curves).items():
        value, spread = expected if isinstance(expected, tuple) else (expected, None)
        allowed = filtered(curves) if name == "IqrAcrossRuns" else 1e-9
        assert scores[name].value == pytest.approx(value, rel=1e-9, abs=allowed), name
        if spread is not None:
            assert scores[name].spread == pytest.approx(spread, rel=1e-9, abs=allowed), name


def test_runs_logged_at_different_steps_equal_plain_loops() -> None:
    curves = _random_curves(1, runs=6, points=50)
    ragged = [(np.delete(s, 7 + i), np.delete(v, 7 + i)) for i, (s, v) in enumerate(curves[:4])] + curves[4:]
    scores = training(ragged, "upstream")
    expected = plain.a2perf(ragged)
    assert scores["IqrAcrossRuns"].value == pytest.approx(expected["IqrAcrossRuns"][0], rel=1e-9, abs=filtered(ragged))
    assert scores["IqrWithinRuns"].value == pytest.approx(expected["IqrWithinRuns"][0], rel=1e-9)
    assert any("not aligned" in note for note in scores["IqrAcrossRuns"].notes)


def test_a_sparse_curve_over_a_huge_range_equals_plain_loops() -> None:
    steps = np.concatenate((np.arange(0, 60, 2), [1000, 1002, 5000]))
    values = np.sin(steps) * 3
    found = training([(steps, values)], "upstream")["IqrWithinRuns"]
    assert found.value == pytest.approx(plain.within_runs([(steps, values)])[0], rel=1e-9)


def _forwards_and_backwards(b: Any, a: Any, state: Any, curve: Any, pad: int) -> Any:
    signal = pytest.importorskip("scipy.signal")
    ends = 2 * curve[0] - curve[pad:0:-1], 2 * curve[-1] - curve[-2 : -pad - 2 : -1]
    longer = np.concatenate([ends[0], curve, ends[1]])
    forwards, _ = signal.lfilter(b, a, longer, zi=state * longer[0])
    backwards, _ = signal.lfilter(b, a, forwards[::-1], zi=state * forwards[-1])
    return backwards[::-1][pad : pad + curve.size]


def test_filter_passes_are_those_of_the_textbook() -> None:
    signal = pytest.importorskip("scipy.signal")
    curves = [np.cumsum(np.random.default_rng(n).normal(size=n)) for n in (1, 2, 28, 300, 1000)]
    b, a = signal.butter(8, 0.01)
    sos = signal.butter(8, 0.01, output="sos")
    np.testing.assert_allclose(lowpass._B, b, rtol=1e-12)
    np.testing.assert_allclose(lowpass._A, a, rtol=1e-12)
    # The steady state solves ill-conditioned equations, so every library finds another one, and results differ by up
    # to 2e-2 of the largest value. Ours solves them too: a constant input of 1 changes it by rounding only.
    _, after = signal.lfilter(lowpass._B, lowpass._A, [1.0], zi=lowpass._STEADY)
    np.testing.assert_allclose(after, lowpass._STEADY, rtol=0, atol=np.spacing(np.abs(a).max()))
    for curve, found, sound in zip(curves, lowpass.polynomial(curves), lowpass.sections(curves), strict=True):
        pad = min(curve.size - 1, 27)
        textbook = _forwards_and_backwards(b, a, signal.lfilter_zi(b, a), curve, pad)
        np.testing.assert_allclose(textbook, signal.filtfilt(b, a, curve, padlen=pad), rtol=1e-9, atol=1e-12)
        expected = _forwards_and_backwards(lowpass._B, lowpass._A, lowpass._STEADY, curve, pad)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(sound, signal.sosfiltfilt(sos, curve, padlen=pad), rtol=1e-7, atol=1e-8)


def test_the_sound_filter_leaves_a_constant_alone_and_the_earlier_one_does_not() -> None:
    constant = [np.full(400, 5.0)]
    np.testing.assert_allclose(lowpass.sections(constant)[0], 5.0, rtol=1e-9)
    assert abs(lowpass.polynomial(constant)[0].mean() - 5.0) > 0.05


def test_corrected_across_runs_equals_plain_loops_on_long_curves() -> None:
    generator = np.random.default_rng(5)
    steps = np.arange(0, 3000, 10)
    curves = [(steps, np.cumsum(generator.normal(size=steps.size))) for _ in range(5)]
    filtered = lowpass.sections([np.asarray(values) for _, values in curves])
    points = [round(k * (steps.size - 1) / 100) for k in range(101)]
    expected = np.mean([plain.iqr([run[p] for run in filtered]) for p in points])
    found = training(curves, "corrected")["IqrAcrossRuns"]
    assert found.value == pytest.approx(expected, rel=1e-9)
    assert not any("filter" in note for note in found.notes)


def test_rollouts_equal_plain_loops_in_both_profiles() -> None:
    generator = np.random.default_rng(0)
    runs = [generator.normal(10, 3, size=n) for n in (100, 80, 120)]
    pooled, apart = rollouts(runs, "upstream"), rollouts(runs, "corrected")
    formulas = {
        "IqrAcrossRollouts": plain.iqr,
        "MadAcrossRollouts": plain.mad,
        "StddevAcrossRollouts": plain.std,
        "LowerCVaRAcrossRollouts": lambda v: plain.cvar(v, "lower"),
        "UpperCVaRAcrossRollouts": lambda v: plain.cvar(v, "upper"),
    }
    assert set(pooled) == set(apart) == set(formulas)
    for name, formula in formulas.items():
        assert pooled[name].value == pytest.approx(formula(list(np.concatenate(runs))), rel=1e-9)
        each = [formula(list(run)) for run in runs]
        assert apart[name].per_run == pytest.approx(each, rel=1e-9)
        assert apart[name].value == pytest.approx(sum(each) / 3, rel=1e-9)
        low, high = apart[name].interval or (math.nan, math.nan)
        reach = 4.30265 * np.std(each, ddof=1) / np.sqrt(3)  # Student, two degrees of freedom
        assert 0.999 * reach <= apart[name].value - low <= 2.001 * reach
        assert 0.999 * reach <= high - apart[name].value <= 2.001 * reach


# --- changes that must not matter -------------------------------------------------------------------------------------

LEVELS = {"LowerCVarOnAcross", "UpperCVaROnAcross", "MedianPerfDuringTraining"}


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), shift=st.floats(-100, 100), scale=st.floats(0.1, 50))
def test_shift_and_scale_of_the_reward(seed: int, shift: float, scale: float) -> None:
    curves = _random_curves(seed, points=30)
    moved = [(steps, scale * values + shift) for steps, values in curves]
    for profile in ("upstream", "corrected"):
        before, after = training(curves, profile), training(moved, profile)
        for name in before:
            if profile == "upstream" and name == "IqrAcrossRuns":
                continue  # its filter has no unit gain and amplifies rounding: held bit by bit above instead
            expected = scale * (before[name].value or 0) + (shift if name in LEVELS else 0)
            assert after[name].value == pytest.approx(expected, rel=1e-6, abs=1e-6), (profile, name)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), order=st.permutations(range(4)))
def test_order_of_runs_does_not_matter(seed: int, order: list[int]) -> None:
    curves = _random_curves(seed, points=25)
    for profile in ("upstream", "corrected"):
        before = training(curves, profile)
        after = training([curves[run] for run in order], profile)
        for name in before:
            assert after[name].value == pytest.approx(before[name].value, rel=1e-9, abs=1e-12)
            if before[name].per_run:
                assert after[name].per_run == pytest.approx([before[name].per_run[run] for run in order], rel=1e-9)


@settings(max_examples=15, deadline=None)
@given(level=st.floats(-1e3, 1e3), runs=st.integers(3, 6), points=st.integers(11, 60))
def test_constant_curves_have_no_dispersion_and_no_risk(level: float, runs: int, points: int) -> None:
    curves = [(np.arange(points), np.full(points, level))] * runs
    scores = training(curves, "corrected")
    for name, found in scores.items():
        assert found.value == pytest.approx(level if name in LEVELS else 0.0, abs=1e-9), name
    earlier = training(curves, "upstream")
    assert earlier["IqrWithinRuns"].value == 0.0
    assert earlier["IqrAcrossRuns"].value is None


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), repeated=st.lists(st.integers(0, 24), min_size=1, max_size=5))
def test_points_logged_twice_count_once(seed: int, repeated: list[int]) -> None:
    curves = _random_curves(seed, points=25)
    doubled = [
        (np.insert(s, repeated, np.asarray(s)[repeated]), np.insert(v, repeated, v[repeated])) for s, v in curves
    ]
    for profile in ("upstream", "corrected"):
        before, after = training(curves, profile), training(doubled, profile)
        for name in before:
            assert after[name].value == pytest.approx(before[name].value, rel=1e-9, abs=1e-12), name


def test_step_spacing_matters_to_the_corrected_profile_only() -> None:
    curves = _random_curves(3)
    stretched = [(2 * steps, values) for steps, values in curves]
    earlier = training(curves, "upstream")["LowerCVaROnDiffs"].value
    assert training(stretched, "upstream")["LowerCVaROnDiffs"].value == pytest.approx(earlier, rel=1e-12)
    sound = training(curves, "corrected")["LowerCVaROnDiffs"].value
    assert training(stretched, "corrected")["LowerCVaROnDiffs"].value == pytest.approx((sound or 0) / 2, rel=1e-12)


# --- data that does not suffice ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["upstream", "corrected"])
@pytest.mark.parametrize("curves", [[], [([], [])], [([1], [2.0])], [([1, 2], [math.nan, math.inf])]])
def test_next_to_nothing_is_never_a_crash(profile: Any, curves: Any) -> None:
    for found in training(curves, profile).values():
        assert (found.value is None) == (found.condition is not None)
    for found in rollouts([values for _, values in curves], profile).values():
        assert (found.value is None) == (found.condition is not None)


def test_one_seed_gives_its_own_risks_but_no_interval() -> None:
    scores = training(_random_curves(0, runs=1), "corrected")
    found = scores["LowerCVaROnDiffs"]
    assert found.value == found.per_run[0]
    assert found.interval is None
    assert found.spread is None
    assert any("1 run" in note for note in found.notes)
    assert scores["LowerCVarOnAcross"].condition == "not enough data (n=1, needs 3)"


def test_points_that_are_not_finite_are_left_out_and_said() -> None:
    curves = _random_curves(2)
    steps, values = curves[0]
    broken = values.copy()
    broken[[3, -1]] = math.nan, math.inf
    for profile in ("upstream", "corrected"):
        found = training([(steps, broken), *curves[1:]], profile)["LowerCVarOnAcross"]
        assert found.per_run[0] == values[-2]
        assert any(note.startswith("run 0: 2 of 40 points are not finite") and "last" in note for note in found.notes)


def test_runs_that_share_no_step_are_compared_only_where_they_can_be() -> None:
    generator = np.random.default_rng(0)
    shifted = [(np.arange(run, 60, 3), generator.normal(size=len(range(run, 60, 3)))) for run in range(3)]
    assert "shared" in str(training(shifted, "upstream")["IqrAcrossRuns"].condition)
    found = training(shifted, "corrected")["IqrAcrossRuns"]
    assert found.value is not None
    assert any("interpolated" in note for note in found.notes)
    apart = [(np.arange(100 * run, 100 * run + 20), np.arange(20.0) + run) for run in range(3)]
    assert training(apart, "corrected")["IqrAcrossRuns"].condition == "not enough data (the runs share no step)"


def test_short_curves_are_flagged() -> None:
    assert any("transients" in note for note in training(_random_curves(0), "upstream")["IqrAcrossRuns"].notes)
    found = training(_random_curves(0), "corrected")["IqrAcrossRuns"]
    assert any("not low-pass filtered" in note for note in found.notes)


# --- refusals and equal bits ------------------------------------------------------------------------------------------


def test_curves_that_cannot_be_are_refused() -> None:
    with pytest.raises(UserError, match="3 steps and 2 values"):
        training([([1, 2, 3], [1.0, 2.0])], "upstream")


@pytest.mark.parametrize("unit", [0.1, 1.0, 128.0, 1e6])
def test_dispersion_within_runs_does_not_depend_on_the_unit_of_steps(unit: float) -> None:
    values = np.random.default_rng(3).standard_normal(40).cumsum()
    plain = training([(np.arange(40.0), values)] * 3, "corrected")
    other = training([(unit * np.arange(40.0), values)] * 3, "corrected")
    for name in ("IqrWithinRuns", "MadWithinRuns", "StddevWithinRuns"):
        assert unit * other[name].value == pytest.approx(plain[name].value, rel=1e-9)
    differences = np.lib.stride_tricks.sliding_window_view(np.diff(values), 5)  # all 35 full windows
    assert plain["StddevWithinRuns"].value == pytest.approx(differences.std(axis=1, ddof=1).mean(), rel=1e-9)
    short = training([(unit * np.arange(5.0), values[:5])] * 3, "corrected")["IqrWithinRuns"]
    assert (short.value, short.condition) == (None, "not enough data (n=5 points, needs 6)")


def test_nine_runs_have_no_interval_across_runs() -> None:
    curves = [(np.arange(20.0), np.random.default_rng(run).standard_normal(20)) for run in range(10)]
    few, enough = training(curves[:9], "corrected"), training(curves, "corrected")
    for name in ("IqrAcrossRuns", "LowerCVarOnAcross"):
        assert few[name].value is not None
        assert few[name].interval is None
        assert enough[name].interval is not None


def test_unknown_settings_are_errors() -> None:
    curves = [(np.arange(20.0), np.arange(20.0))] * 3
    with pytest.raises(ConfigError, match="unknown profile 'corected'; did you mean 'corrected'"):
        training(curves, "corected")
    with pytest.raises(ConfigError, match="unknown profile"):
        rollouts([np.arange(5.0)], "none")
    with pytest.raises(ConfigError, match="normalise='range' is not valid"):
        training(curves, "corrected", "range")
    with pytest.raises(ValueError, match="one of lower, upper"):
        cvar(np.arange(5.0), tail="left")
    with pytest.raises(ValueError, match="one of max, min"):
        ranks(np.arange(5.0), best="highest")
