"""COUNT over windows of an hour at 10,000 tuples a second and stream: ours on one core, and IC as the paper runs it.

The window is filled first; then every call brings ten seconds of both streams, or a minute, and is asked for its
ticks. Seconds are of the processor's time that this process used. Keys are drawn evenly. IC has 20 hash buckets for
the same stream from its beginning, until its limit: no window of it is full by then, its cost per tuple would still
grow, so the times that ours is faster are a lower bound. Its seconds per tuple are those of its last second of stream.
A quick run has windows of half a minute; ``window_s`` says how long they were.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lakehouse.algorithms.join_aggregate.contract import Rows, Shape
from tests.benchmarks import page
from tests.benchmarks.join_aggregate.run import OURS, SECOND, Calls, Run, method, run, warm_up

RATE, WINDOW_S, QUICK_WINDOW_S, CALL_S = 10_000, 3600, 30, 10
KEYS = (2000, 100_000)
TICKS_S = (1, 60)
SHAPE = Shape(attributes=((0,), (0,)), grouped=(False, False))


def figures(quick: bool) -> dict[str, Any]:
    """Return tuples a second and bytes a live tuple by keys and ticks, and how many times IC's time ours is faster."""
    all_keys, window_s, more_s, limit_s = (
        (KEYS[:1], QUICK_WINDOW_S, 60, 0.2) if quick else (KEYS, WINDOW_S, 300, 10.0)
    )
    warm_up((OURS, "IC"), SHAPE)
    ours = {case: each for keys in all_keys for case, each in _ours(keys, window_s, more_s).items()}
    ic = {keys: paper(keys, window_s, limit_s) for keys in all_keys}
    names = {case: f"keys{case[0]}_tick{case[1]}s" for case in ours}
    live = 2 * RATE * window_s
    found: dict[str, Any] = {
        "window_s": window_s,
        "tuples_per_s": {names[case]: round(1 / each.seconds_per_tuple) for case, each in ours.items()},
        "bytes_per_live_tuple": {names[case]: round(each.bytes / live, 1) for case, each in ours.items()},
        "ic_us_per_tuple": {f"keys{keys}": round(us, 1) for keys, (us, _) in ic.items()},
        "ic_rows_in_window": {f"keys{keys}": rows for keys, (_, rows) in ic.items()},
        "speedup_over_ic": {
            names[case]: round(ic[case[0]][0] / 1e6 / each.seconds_per_tuple) for case, each in ours.items()
        },
    }
    found["least_speedup_over_ic"] = min(found["speedup_over_ic"].values())
    if not quick:
        _write(found)
    return found


def _ours(keys: int, window_s: int, more_s: int) -> dict[tuple[int, int], Run]:
    """Return ours by keys and ticks, one after the other over the same window once it is full."""
    made = method(OURS, SHAPE)
    run(made, stream(keys, (0, window_s), window_s, CALL_S, CALL_S))
    found, start_s = dict[tuple[int, int], Run](), window_s
    for tick_s in TICKS_S:
        span = start_s, start_s + more_s
        found[keys, tick_s] = run(made, stream(keys, span, window_s, max(CALL_S, tick_s), tick_s))
        start_s += more_s
    return found


def stream(keys: int, span_s: tuple[int, int], window_s: int, call_s: int, tick_s: int) -> Calls:
    """Return calls with ``call_s`` seconds of both streams each, and the ticks in them."""
    rng = np.random.default_rng(span_s[0])
    per_call = 2 * RATE * call_s
    number = np.arange(per_call)
    for start_s in range(*span_s, call_s):
        enter = start_s * SECOND + number * SECOND // (2 * RATE)
        rows = Rows.of(number % 2, enter, enter + window_s * SECOND, rng.integers(0, keys, (per_call, 1)))
        yield rows, np.arange(start_s + tick_s, start_s + call_s + 1, tick_s) * SECOND - 1


def paper(keys: int, window_s: int, limit_s: float) -> tuple[float, int]:
    """Return IC's microseconds per tuple in the last second of stream before its limit, and the rows in its windows."""
    made, spent, rows, took = method("IC", SHAPE), 0.0, 0, 0.0
    for call in stream(keys, (0, window_s), window_s, 1, 1):
        took = run(made, [call]).seconds_per_tuple
        spent, rows = spent + took * len(call[0]), rows + len(call[0])
        if spent > limit_s:
            break
    return 1e6 * took, rows


def _write(found: dict[str, Any]) -> None:
    heads = ["keys and ticks", "tuples/s", "bytes a live tuple", "times faster than IC, at least"]
    names = "tuples_per_s", "bytes_per_live_tuple", "speedup_over_ic"
    rows = [[case, *(found[name][case] for name in names)] for case in found["tuples_per_s"]]
    ic = [[keys, us, found["ic_rows_in_window"][keys]] for keys, us in found["ic_us_per_tuple"].items()]
    page.write(
        "join_aggregate",
        "speed",
        "COUNT over an hour at 10,000 tuples a second",
        __doc__ or "",
        page.table(heads, rows),
        page.table(["IC, 20 hash buckets", "us a tuple", "rows in its windows"], ic),
    )
