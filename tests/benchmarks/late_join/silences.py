"""Silences and late rows: what silence tells, and the cost of waiting where it tells nothing, for both policies.

Points in a square join within 5 m and 0.2 s, for ten minutes. All rows have ordinary lag: 20 ms on average, of one row
in fifty 300 ms.

| stream | sources, and what their silences mean |
| --- | --- |
| hold back | 40, each silent for up to 4 s now and then; what they held back comes afterwards |
| break down | the same; one after the other, eight of them fall silent for good |
| come and go | 40 at a time, each for ten seconds, a minute or five minutes on average, and never again |
| by event | 40 that send for five seconds on average, and then nothing for two seconds up to minutes |
| at random | 1,500, whose rows have no rhythm: one in fifty looks silent at any time |
| more than are watched | 5,000 of the same |

Both run as registered queries do: one bucket, batches of 500 rows, without and with spare rows. What slack by source
learns of silences was chosen with the mobile network of ``real.py`` and the third and fourth stream in view.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from lakehouse.algorithms.late_join.conditions import Distance
from lakehouse.algorithms.late_join.contract import Batch
from lakehouse.algorithms.late_join.margin import SPARE_ROWS
from tests.benchmarks import page
from tests.benchmarks.late_join.real import RECALLS
from tests.benchmarks.late_join.registered import told
from tests.benchmarks.late_join.run import Case, case_of
from tests.benchmarks.late_join.short_windows import POLICIES
from tests.benchmarks.late_join.streams import LONGEST_SILENCE_S, SECOND

SQUARE_M, LENGTH_S, QUICK_S = 60.0, 600.0, 90.0
Rows = tuple[Any, Any, Any]


def held_back(rng: np.random.Generator, length_s: float, broken: int = 0) -> Rows:
    """Return source, time and lag of rows of 40 sources, of which some break down, a minute after each other."""
    parts = []
    for source in range(40):
        at = np.arange(rng.random() / 10, length_s, 0.1)
        begins = np.sort(rng.uniform(0, length_s, rng.poisson(length_s / 20)))
        lasts = np.minimum(0.5 * (1 + rng.pareto(1.5, len(begins))), LONGEST_SILENCE_S)
        waits = np.zeros(len(at))
        for begin, end in zip(begins, begins + lasts, strict=True):
            inside = slice(*np.searchsorted(at, [begin, end]))
            waits[inside] = np.maximum(waits[inside], end - at[inside])
        lives = at < (60.0 * (source + 1) if source < broken else length_s)
        parts.append((np.full(len(at), source)[lives], at[lives], waits[lives]))
    return _in_order(parts)


def coming_and_going(rng: np.random.Generator, length_s: float, life_s: float) -> Rows:
    """Return rows of 40 sources at a time, ten a second each."""
    count = int(40 * (length_s / life_s + 1))
    born, lives = rng.uniform(-life_s, length_s, count), rng.exponential(life_s, count)
    parts = []
    for source in range(count):
        at = np.arange(
            max(born[source], 0.0) + rng.random() / 10, min(born[source] + lives[source], length_s), 0.1
        )
        parts.append((np.full(len(at), source), at, np.zeros(len(at))))
    return _in_order(parts)


def by_event(rng: np.random.Generator, length_s: float) -> Rows:
    """Return rows of 40 sources, twenty a second each while something happens."""
    parts = []
    for source in range(40):
        began = 0.0
        while began < length_s:
            lasts = rng.exponential(5.0)
            at = np.arange(began, min(began + lasts, length_s), 0.05)
            parts.append((np.full(len(at), source), at, np.zeros(len(at))))
            began += lasts + 2.0 * (1 + rng.pareto(1.2))
    return _in_order(parts)


def at_random(rng: np.random.Generator, length_s: float, sources: int) -> Rows:
    """Return 400 rows a second, each of any source."""
    rows = int(400 * length_s)
    return rng.integers(0, sources, rows), np.sort(rng.uniform(0, length_s, rows)), np.zeros(rows)


STREAMS: dict[str, Callable[[np.random.Generator, float], Rows]] = {
    "hold back": held_back,
    "break down": partial(held_back, broken=8),
    "come and go, 10 s": partial(coming_and_going, life_s=10.0),
    "come and go, 60 s": partial(coming_and_going, life_s=60.0),
    "come and go, 300 s": partial(coming_and_going, life_s=300.0),
    "by event": by_event,
    "at random": partial(at_random, sources=1_500),
    "more than are watched": partial(at_random, sources=5_000),
}
QUICK = ("hold back", "come and go, 10 s")


def figures(quick: bool) -> dict[str, Any]:
    """Return, by stream, recall, policy and spare rows: periods met and scored, mean and peak rows held."""
    rows = [
        [stream, recall, name, spare, *told(case, recall, name, 1, spare)]
        for stream in (QUICK if quick else STREAMS)
        for case in [_case(stream, QUICK_S if quick else LENGTH_S)]
        for recall in RECALLS
        for name in POLICIES
        for spare in (0, SPARE_ROWS)
    ]
    if not quick:
        heads = [
            "stream",
            "recall",
            "policy",
            "spare rows",
            "periods",
            "met",
            "mean held",
            "peak held",
            "logged",
        ]
        page.write("late_join", "silences", "What silence tells", __doc__ or "", page.table(heads, rows))
    return {
        "silences": {
            f"{stream}_q{recall:g}_{name}_spare{spare}": [met, scored, round(mean), peak]
            for stream, recall, name, spare, scored, met, mean, peak, _ in rows
        }
    }


def _case(stream: str, length_s: float) -> Case:
    """Return a stream in order of arrival; its sources move straight on, and come back at the other edge."""
    rng = np.random.default_rng(6)
    source, at_s, waits_s = STREAMS[stream](rng, length_s)
    rows = len(source)
    lag_s = np.where(rng.random(rows) < 0.02, rng.exponential(0.3, rows), rng.exponential(0.02, rows))
    homes, metres_per_s = (draw((source.max() + 1, 2)) for draw in (rng.random, rng.standard_normal))
    places = (homes[source] * SQUARE_M + metres_per_s[source] * at_s[:, None]) % SQUARE_M
    arrival_s = at_s + np.maximum(lag_s, waits_s)
    order = np.argsort(arrival_s, kind="stable")
    event_us, arrival_us = ((times[order] * SECOND).astype(np.int64) for times in (at_s, arrival_s))
    columns = {"arrival_us": arrival_us, "row": order, "numbers": places[order], "source": source[order]}
    batch = Batch.of(source[order] % 2, event_us, **columns)
    return case_of(batch, Distance(5.0), SECOND // 5, 60 * SECOND, SECOND)


def _in_order(parts: list[Rows]) -> Rows:
    source, at_s, waits_s = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.argsort(at_s, kind="stable")
    return source[order], at_s[order], waits_s[order]
