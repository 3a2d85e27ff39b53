"""The low-pass filter of the across-run metrics: Butterworth, order 8, cut-off 0.01 of Nyquist, in samples.

Two forms of the same design, both run forwards and backwards (zero phase) over a curve that is continued at both ends
by its point reflection. ``polynomial`` repeats the earlier platform's arithmetic, ill-conditioned as it is: its gain at
zero frequency is 0.9929 where 1 is right, and rounding is part of the result. On one machine it repeats itself bit for
bit; another library or processor gives values that differ by up to 5e-3 of a curve's largest value, and so does a
change of the input in its last digit. ``sections`` is the same filter as four second-order sections, with unit gain
and no such noise.

Coefficients by the bilinear transform (Oppenheim and Schafer, Discrete-Time Signal Processing, section 7.1).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np

from a2perf.metrics.values import Values

ORDER = 8
CUTOFF = 0.01
PAD = 27
SHORT_CURVE = 200

# Expanding eight nearly equal poles into one polynomial leaves few digits, so these are the rounded values that the
# published numbers were made with, not values to be recomputed.
_B = np.array([
    3.4219614165936484e-15, 2.7375691332749187e-14, 9.581491966462216e-14, 1.916298393292443e-13,
    2.395372991615554e-13, 1.916298393292443e-13, 9.581491966462216e-14, 2.7375691332749187e-14,
    3.4219614165936484e-15,
])  # fmt: skip
_A = np.array([
    1.0, -7.838967981032241, 26.885713620195883, -52.69528124027719, 64.55460591611886, -50.61600367669256,
    24.805811247040097, -6.947134780895171, 0.8512568955432028,
])  # fmt: skip
# State of the filter after an endless constant 1.
_STEADY = np.array([
    0.9886136495962651, -6.761097095200341, 19.81848636886152, -32.276787934590885, 31.54277661839201,
    -18.49689550440136, 6.026468083731025, -0.8415641862469518,
])  # fmt: skip
_CHUNK = 2048
_BLOCK = 128


def polynomial(curves: Sequence[Values]) -> list[Values]:
    """Filters curves as the earlier platform did; each at least 1 long, lengths may differ."""
    return _forth_and_back(curves, _polynomial_pass)


def sections(curves: Sequence[Values]) -> list[Values]:
    """Filters curves with second-order sections; each at least 1 long, lengths may differ."""
    return _forth_and_back(curves, _sections_pass)


def _forth_and_back(curves: Sequence[Values], one_pass: Callable[[Values], Values]) -> list[Values]:
    padded = [_reflected(np.asarray(curve, dtype=np.float64)) for curve in curves]
    longest = max((curve.size for curve in padded), default=0)
    # All curves are filtered together, one column each. The filter is causal, so what stands behind a short one's end
    # does not touch it.
    columns = np.zeros((longest, len(padded)))
    for _ in range(2):
        for number, curve in enumerate(padded):
            columns[: curve.size, number] = curve
        filtered = one_pass(columns)
        padded = [filtered[: curve.size, number][::-1] for number, curve in enumerate(padded)]
    result = []
    for curve, original in zip(padded, curves, strict=True):
        pad = min(len(original) - 1, PAD)
        result.append(np.ascontiguousarray(curve[pad : curve.size - pad]))
    return result


def _reflected(curve: Values) -> Values:
    pad = min(curve.size - 1, PAD)
    if pad == 0:
        return curve
    before = 2 * curve[0] - curve[pad:0:-1]
    after = 2 * curve[-1] - curve[-2 : -(pad + 2) : -1]
    return np.concatenate((before, curve, after))


def _polynomial_pass(columns: Values) -> Values:
    """Direct form II transposed, in the order of operations that the published numbers were made with."""
    steps, runs = columns.shape
    filtered = np.empty_like(columns)
    state = np.zeros((ORDER + 1, runs))  # the last row stays 0
    state[:ORDER] = _STEADY[:, None] * columns[0]
    current, shifted, first = state[:ORDER], state[1:], state[0]
    fed_back, gathered = np.empty((ORDER, runs)), np.empty((ORDER, runs))
    feedback = np.repeat(_A[1:, None], runs, axis=1)
    add, multiply, subtract = np.add, np.multiply, np.subtract
    for start in range(0, steps, _CHUNK):
        part = columns[start : start + _CHUNK]
        direct = _B[0] * part
        delayed = _B[None, 1:, None] * part[:, None, :]
        for now, later, out in zip(direct, delayed, filtered[start : start + _CHUNK], strict=True):
            add(first, now, out)
            multiply(feedback, out, fed_back)
            add(shifted, later, gathered)
            subtract(gathered, fed_back, current)
    return filtered


def _sections_pass(columns: Values) -> Values:
    """A cascade of sections; each turns whole blocks by matrix products, since its state is but two numbers."""
    steps, runs = columns.shape
    blocks = -(-steps // _BLOCK)
    signal = np.zeros((blocks * _BLOCK, runs))
    signal[:steps] = columns
    for gain, a1, a2 in _section_coefficients():
        response, observed, moved, entered, steady = _block_matrices(gain, a1, a2)
        state = steady[:, None] * signal[0]
        shaped = signal.reshape(blocks, _BLOCK, runs)
        driven, entering = response @ shaped, entered @ shaped
        states = np.empty((blocks, 2, runs))
        for number in range(blocks):
            states[number] = state
            state = moved @ state + entering[number]
        signal = (driven + observed @ states).reshape(-1, runs)
    return signal[:steps]


@functools.cache
def _section_coefficients() -> tuple[tuple[float, float, float], ...]:
    """Gain, a1 and a2 of ``gain (1 + z^-1)^2 / (1 + a1 z^-1 + a2 z^-2)``, one section per conjugate pole pair."""
    warped = math.tan(math.pi * CUTOFF / 2)
    coefficients = []
    for pair in range(ORDER // 2):
        damping = 2 * math.sin(math.pi * (2 * pair + 1) / (2 * ORDER))
        scale = 1 + damping * warped + warped**2
        a1, a2 = 2 * (warped**2 - 1) / scale, (1 - damping * warped + warped**2) / scale
        coefficients.append((warped**2 / scale, a1, a2))
    return tuple(coefficients)


@functools.cache
def _block_matrices(gain: float, a1: float, a2: float) -> tuple[Values, Values, Values, Values, Values]:
    """Returns one section over a block as matrices.

    Returns:
        ``response`` (block, block): output by input; ``observed`` (block, 2): output by the state at the start;
        ``moved`` (2, 2) and ``entered`` (2, block): the state at the end by that at the start and by the input;
        ``steady`` (2,): the state after an endless constant 1.
    """
    step = np.array([[-a1, 1.0], [-a2, 0.0]])
    enter = np.array([gain * (2 - a1), gain * (1 - a2)])
    powers = [np.eye(2)]
    for _ in range(_BLOCK):
        powers.append(step @ powers[-1])
    observed = np.stack([power[0] for power in powers[:_BLOCK]])
    impulse = np.concatenate(([gain], observed[:-1] @ enter))
    lag = np.arange(_BLOCK)[:, None] - np.arange(_BLOCK)[None, :]
    response = np.where(lag >= 0, impulse[np.maximum(lag, 0)], 0.0)
    entered = np.stack([powers[_BLOCK - 1 - place] @ enter for place in range(_BLOCK)], axis=1)
    return response, observed, powers[_BLOCK], entered, np.linalg.solve(np.eye(2) - step, enter)
