"""SUM of floats over 10 million rows that come and go: how far answers are from the exact sum, in the bound it states.

A quarter of the values are the negative of one just before; magnitudes change by turns from 5e-324 to 2^899, so that
when large ones have left there is only what a running float64 sum has lost. The exact sum is made of whole numbers
from the rows in their windows at each checkpoint. The bound is 2^-104 of the exact sum, for the two floats of the
answer; ``plain`` is what a running float64 sum per key makes of the same rows, its error relative to the exact sum,
1e200 where that is 0.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from lakehouse.algorithms.join_aggregate.choice import build
from lakehouse.algorithms.join_aggregate.contract import Aggregate, Rows, Shape
from tests.benchmarks import page

SHAPE = Shape(attributes=((0,), (0,)), grouped=(False, False), aggregates=(Aggregate("sum", 1, 0),))
KEYS, LIVE, BOUND = 16, 1000, Fraction(1, 2**104)
# What an answer is said to be off by where the exact sum is 0.
FARTHEST = Fraction(10**200)
MAGNITUDES = np.array([5e-324, 1e-200, 1e-3, 1.0, 1e3, 1e16, 1e200, 2.0**899])


def figures(quick: bool) -> dict[str, Any]:
    """Return the largest error in bounds, and the largest relative error of a plain running sum."""
    updates, checkpoints = (200_000, 20) if quick else (10_000_000, 500)
    rows = stream(updates // 2)
    ticks = np.linspace(LIVE, len(rows), checkpoints).astype(np.int64)
    answers = build("factorised", SHAPE).advance(rows, ticks)
    given = {tick: at for at, tick in enumerate(answers.tick_us.tolist())}
    plain = _plain(rows, ticks)
    worst, worst_plain = Fraction(0), 0.0
    for at, tick in enumerate(ticks.tolist()):
        exact = _exact(rows, tick)
        high, low = (
            (answers.high[given[tick], 0], answers.low[given[tick], 0]) if tick in given else (0.0, 0.0)
        )
        worst = max(worst, _relative(Fraction(high) + Fraction(low), exact) / BOUND)
        worst_plain = max(worst_plain, float(min(_relative(plain[at], exact), FARTHEST)))
    drift = {
        "updates": updates,
        "checkpoints": checkpoints,
        "largest_error_in_bounds": round(float(worst), 4),
        "plain_largest_relative_error": float(f"{worst_plain:.3g}"),
    }
    if not quick:
        table = page.table(list(drift), [list(drift.values())])
        page.write("join_aggregate", "drift", "Sums of floats that do not drift", __doc__ or "", table)
    return {"float_drift": drift}


def stream(count: int) -> Rows:
    """Return rows 1 us apart, of two sides by turns, each in its window while about a thousand others come."""
    rng = np.random.default_rng(11)
    values = rng.normal(size=count) * rng.choice(
        MAGNITUDES, count, p=[0.1, 0.1, 0.2, 0.2, 0.2, 0.1, 0.05, 0.05]
    )
    values = np.clip(values, -(2.0**900), 2.0**900)
    twin = np.flatnonzero(rng.random(count - 2) < 0.25) + 2
    values[twin] = -values[twin - 2]
    enter = np.arange(count)
    stay = rng.integers(1, 2 * LIVE, count)
    return Rows.of(enter % 2, enter, enter + stay, rng.integers(0, KEYS, (count, 1)), values=values[:, None])


def _live(rows: Rows, tick: int) -> Rows:
    # No row stays longer than twice LIVE.
    near = rows[max(0, tick - 2 * LIVE) : tick + 1]
    return near[(near.enter_us <= tick) & (near.leave_us >= tick)]


def _exact(rows: Rows, tick: int) -> Fraction:
    live = _live(rows, tick)
    partners = np.bincount(live.keys[live.side == 0, 0], minlength=KEYS)
    mine = live[live.side == 1]
    products = zip(partners[mine.keys[:, 0]].tolist(), mine.values[:, 0].tolist(), strict=True)
    return sum((many * Fraction(value) for many, value in products), Fraction(0))


def _plain(rows: Rows, ticks: Any) -> list[Fraction]:
    """Return per tick the sum that running float64 sums per key have: what comes is added, what leaves taken away."""
    mine = rows[rows.side == 1]
    times = np.concatenate([mine.enter_us, mine.leave_us + 1])
    signed = np.concatenate([mine.values[:, 0], -mine.values[:, 0]])
    keys = np.concatenate([mine.keys[:, 0], mine.keys[:, 0]])
    order = np.argsort(times, kind="stable")
    times, signed, keys = times[order], signed[order], keys[order]
    found = np.zeros((KEYS, len(ticks)))
    for key in range(KEYS):
        own = keys == key
        running = np.concatenate([[0.0], np.cumsum(signed[own])])
        found[key] = running[np.searchsorted(times[own], ticks, side="right")]
    partners = [_partners(rows, tick) for tick in ticks.tolist()]
    return [
        sum(
            (int(n) * Fraction(float(value)) for n, value in zip(many, found[:, at], strict=True)),
            Fraction(0),
        )
        for at, many in enumerate(partners)
    ]


def _partners(rows: Rows, tick: int) -> Any:
    live = _live(rows, tick)
    return np.bincount(live.keys[live.side == 0, 0], minlength=KEYS)


def _relative(found: Fraction, exact: Fraction) -> Fraction:
    if found == exact:
        return Fraction(0)
    return abs(found - exact) / abs(exact) if exact else FARTHEST
