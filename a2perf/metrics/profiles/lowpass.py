"""The low-pass filter of the across-run metrics: Butterworth, order 8, cut-off 0.01 of Nyquist, in samples.

Two forms of the same design, both run forwards and backwards (zero phase) over a curve that is continued at both ends
by its point reflection. ``polynomial`` repeats the upstream platform's arithmetic, which is ill-conditioned: its gain
at zero frequency is 0.9929 instead of 1, and rounding affects the result. On one machine it is reproducible bit for
bit. Another library or processor, or a change in the last digit of the input, changes values by up to 5e-3 of the
largest value of the curve. ``sections`` is the same filter as four second-order sections, with unit gain
and no such noise. SciPy's signal package takes a second to load, so only a filter loads it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from a2perf.arrays import Values

ORDER = 8
CUTOFF = 0.01
PAD = 27
SHORT_CURVE = 200

# Expanding eight nearly equal poles into one polynomial leaves few digits. The published numbers were computed with
# these rounded values; recomputed ones would give other results.
_B = np.array([
    3.4219614165936484e-15, 2.7375691332749187e-14, 9.581491966462216e-14, 1.916298393292443e-13,
    2.395372991615554e-13, 1.916298393292443e-13, 9.581491966462216e-14, 2.7375691332749187e-14,
    3.4219614165936484e-15,
])  # fmt: skip
_A = np.array([
    1.0, -7.838967981032241, 26.885713620195883, -52.69528124027719, 64.55460591611886, -50.61600367669256,
    24.805811247040097, -6.947134780895171, 0.8512568955432028,
])  # fmt: skip
# State of the filter after a constant input of 1: without it the start of a curve would show a step response.
_STEADY = np.array([
    0.9886136495962651, -6.761097095200341, 19.81848636886152, -32.276787934590885, 31.54277661839201,
    -18.49689550440136, 6.026468083731025, -0.8415641862469518,
])  # fmt: skip


def polynomial(curves: Sequence[Values]) -> list[Values]:
    """Filters curves as the upstream platform did; each at least 1 long, lengths may differ."""
    from scipy.signal import lfilter

    filtered = []
    for curve in curves:
        pad = min(curve.size - 1, PAD)
        signal = np.pad(curve, pad, mode="reflect", reflect_type="odd") if pad else curve
        for _ in range(2):
            # SciPy's own filtfilt recomputes the steady state, which rounds differently
            signal = lfilter(_B, _A, signal, zi=_STEADY * signal[0])[0][::-1]
        filtered.append(np.ascontiguousarray(signal[pad : signal.size - pad]))
    return filtered


def sections(curves: Sequence[Values]) -> list[Values]:
    """Filters curves with second-order sections; each at least 1 long, lengths may differ."""
    from scipy.signal import butter, sosfiltfilt

    design = butter(ORDER, CUTOFF, output="sos")
    # the padding of the other form, not SciPy's default, to treat the ends of a curve alike
    return [np.asarray(sosfiltfilt(design, curve, padlen=min(curve.size - 1, PAD))) for curve in curves]
