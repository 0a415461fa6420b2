"""A registered join with tables made by hand, and the truth about its pairs; no JVM."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from lakehouse.algorithms.late_join.conditions import Equality
from lakehouse.algorithms.late_join.contract import Clock
from lakehouse.algorithms.rollup.levels import Level
from lakehouse.config.columns import Column
from lakehouse.config.stream import Source, Stream
from lakehouse.config.times import TimeColumn
from lakehouse.queries.kind import Output, definition_of, written_as
from lakehouse.queries.pairs.query import PairSide, PairsQuery
from lakehouse.storage.layout import Home
from lakehouse.storage.query_meaning import require_same
from tests.serving.streams import write_delta

SECOND = 1_000_000
REPAIRED_AT = datetime(2026, 5, 1, 2, 3, tzinfo=UTC)
JOINS = pa.schema(
    [(name, pa.int64()) for name in ("event_us", "left_us", "right_us", "left_row", "right_row")]
    + [("found", pa.string()), ("wait_us", pa.int64()), ("batch", pa.int64())]
    + [("device", pa.string()), ("answer", pa.float64())]
)
LATE = pa.schema(
    [("what", pa.string()), ("bucket", pa.int32()), ("side", pa.int32())]
    + [(name, pa.int64()) for name in ("row", "event_us", "horizon_us", "time_us", "batch")]
)
FIGURES = pa.schema(
    [("batch", pa.int64()), ("bucket", pa.int32())]
    + [(name, pa.int64()) for name in ("rows", "pairs", "missed", "refused", "unusable")]
    + [(name, pa.int64()) for name in ("time_us", "left_newest_us", "right_newest_us")]
)
REPAIRS = pa.schema(
    [(name, pa.int64()) for name in ("repair", "through", "looked_at", "found", "gone", "time_us")]
    + [("committed_at", pa.timestamp("us", tz="UTC"))]
)


def stream(name: str, latest_us: int = 20 * SECOND) -> Stream:
    return Stream(
        name=name,
        source=Source(path="x", format="ndjson"),
        event_time=TimeColumn(column="ts", unit="us"),
        levels=(Level(SECOND, None),),
        latest=f"{latest_us}us",  # type: ignore[arg-type]
        columns={"device": Column(), "temp": Column(type="double")},
    )


STREAMS = {"asks": stream("asks"), "replies": stream("replies", 5 * SECOND)}
ANSWERS = PairsQuery(
    name="answers",
    text="-- Which reply answers which\nSELECT a.device, r.temp AS answer  -- as it came\nFROM asks a, replies r;\n",
    description="Which reply answers which question",
    sides=(
        PairSide("asks", "a", ("device",), ()),
        PairSide("replies", "r", ("device",), ()),
    ),
    window_us=3 * SECOND,
    condition=Equality(),
    outputs=(Output("device", 0, "device"), Output("answer", 1, "temp")),
    recall=0.9,
    period_us=10 * SECOND,
    step_us=SECOND,
    clock=Clock(),
    policy="needed_slack",
)


@dataclass(frozen=True)
class Pair:
    """A pair of the batch or repair ``batch``."""

    event_us: int
    found: str = "online"
    batch: int = 1


@dataclass(frozen=True)
class Logged:
    """A row that may have missed partners up to ``horizon_us``."""

    event_us: int
    horizon_us: int
    batch: int = 1
    what: str = "missed"


@dataclass(frozen=True)
class Joined:
    """Everything in the tables of a join; ``batches`` and ``repairs`` (with the batch each goes up to) are finished."""

    pairs: Sequence[Pair] = field(repr=False)
    late: Sequence[Logged] = ()
    batches: int = 1
    repairs: Sequence[int] = ()
    time_us: int | None = 100 * SECOND
    newest_us: int = 100 * SECOND
    query: PairsQuery = ANSWERS

    def write(self, home: Home) -> Home:
        """Write the tables; unfinished batches have pairs and log, and no figures."""
        name = self.query.name
        what = definition_of(self.query), written_as(self.query)
        require_same(home.batch_manifests(name), name, *what)
        tables = (
            (home.pairs(name), JOINS, [self._pair(pair) for pair in self.pairs]),
            (
                home.missed_rows(name),
                LATE,
                [{**vars(row), "side": 0, "bucket": 0, "row": 1} for row in self.late],
            ),
            (home.queries(name), FIGURES, [self._figures(batch + 1) for batch in range(self.batches)]),
            (home.repairs(name), REPAIRS, [self._repair(n + 1) for n in range(len(self.repairs))]),
        )
        for path, schema, rows in tables:
            path.mkdir(parents=True, exist_ok=True)
            write_delta(pa.Table.from_pylist(rows, schema), path)
        return home

    @property
    def told(self) -> list[Pair]:
        """The pairs of finished batches and repairs."""
        done = {"online": self.batches, "repair": len(self.repairs)}
        return [pair for pair in self.pairs if pair.batch <= done[pair.found]]

    @property
    def open(self) -> list[tuple[int, int]]:
        """First and last time of the pairs that each row may lack that no repair has looked at."""
        repaired = max(self.repairs, default=0)
        return [
            (row.event_us, max(row.event_us, min(row.event_us + self.query.window_us, row.horizon_us)))
            for row in self.late
            if row.what == "missed" and repaired < row.batch <= self.batches
        ]

    def _pair(self, pair: Pair) -> dict[str, Any]:
        at = pair.event_us
        own = {"device": "a", "answer": at / 4, "wait_us": 0 if pair.found == "online" else 5}
        rows = {"left_us": at, "right_us": at - 1, "left_row": 7, "right_row": 8}
        return {**vars(pair), **own, **rows}

    def _figures(self, batch: int) -> dict[str, Any]:
        found = [pair for pair in self.pairs if (pair.found, pair.batch) == ("online", batch)]
        kinds = [row.what for row in self.late if row.batch == batch]
        counts = {"missed": kinds.count("missed"), "refused": kinds.count("refused"), "unusable": 0}
        times = {"time_us": self.time_us, "left_newest_us": self.newest_us, "right_newest_us": None}
        return {"batch": batch, "bucket": 0, "rows": 10, "pairs": len(found), **counts, **times}

    def _repair(self, number: int) -> dict[str, Any]:
        found = [pair for pair in self.pairs if (pair.found, pair.batch) == ("repair", number)]
        after = self.repairs[number - 2] if number > 1 else 0
        through = self.repairs[number - 1]
        logged = [row for row in self.late if row.what == "missed" and after < row.batch <= through]
        figures = {"looked_at": len(logged), "found": len(found), "gone": 2 if number == 1 else 0}
        return {"repair": number, "through": through, **figures, "time_us": 0, "committed_at": REPAIRED_AT}


def random_join(seed: int) -> Joined:
    """Return a join with gaps, bursts, an unfinished batch and repair, rows that wait for a repair, and any period."""
    dice = random.Random(seed)
    step = dice.choice([1, 7, SECOND])
    span = step * dice.choice([1, 5, 40, 400])
    start = dice.choice([0, -13 * step, 10**15])
    period = step * dice.choice([1, 2, 10, 60])
    query = replace(ANSWERS, period_us=period, step_us=step, window_us=dice.choice([1, step, 9 * step]))

    def moment() -> int:
        return start + min(dice.choice([dice.randrange(span), dice.randrange(3) * span // 3]), span - 1)

    count = dice.choice([0, 3, 50, 900])
    pairs = [Pair(moment(), dice.choice(["online", "repair"]), dice.randrange(1, 5)) for _ in range(count)]
    late = [_random_logged(dice, moment()) for _ in range(dice.choice([0, 2, 20]))]
    time_us = dice.choice([None, start + span // 2 + 20 * SECOND, start + span + 90 * SECOND])
    repairs = dice.choice([(), (1,), (2, 3)])
    return Joined(pairs, late, 3, repairs, time_us, start + span, query)


def _random_logged(dice: random.Random, event_us: int) -> Logged:
    horizon = event_us + dice.randrange(-5 * SECOND, 5 * SECOND)
    return Logged(event_us, horizon, dice.randrange(1, 5), dice.choice(["missed", "missed", "refused"]))
