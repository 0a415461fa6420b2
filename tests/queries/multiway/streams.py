"""Three streams that come late, in parts and in any order, queries over them, and what these come to."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa

from lakehouse.engine import engine_of
from lakehouse.queries.multiway.query import MultiwayQuery
from lakehouse.queries.multiway.run import MultiwayRun
from lakehouse.settings import Settings
from tests.support.table_rows import table_rows
from tests.support.taking_in import take_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = ("doors", "badges", "alerts")
STREAM = """
[streams.{name}]
event_time = {{ column = "ts", unit = "ms" }}
arrival_time = {{ column = "received", unit = "ms" }}
keys = ["room"]
measures = ["value"]
levels = ["1m forever"]
site = "{site}"
[streams.{name}.source]
path = "{name}/*"
format = "ndjson"
settle = 0
[streams.{name}.columns]
room = "string"
floor = "int"
"""
SITES = """
[sites]
north = {{ east = {0}, south = {1} }}
east = {{ south = {2} }}
"""
THREE = """-- who was where when
SELECT d.room, d.value AS door, b.event_us AS badge_us, a.value AS alert
FROM doors [8 SECONDS] d JOIN badges [3 SECONDS] b ON d.room = b.room AND d.floor = b.floor
JOIN alerts [15 SECONDS] a ON a.room = b.room AND a.floor = d.floor
WHERE a.value < 9
SLACK 2 SECONDS
"""
FOUR = """
SELECT d.room, e.value AS later
FROM doors [4 SECONDS] d, badges [3 SECONDS] b, alerts [6 SECONDS] a, doors [2 SECONDS] e
WHERE d.room = b.room AND b.room = a.room AND a.room = e.room AND d.value < 5 AND e.value >= 5
AHEAD 30 SECONDS IDLE 1 MINUTE ROUTING SMJH
"""
T0 = 1_600_000_000_000
Row = dict[str, Any]


def configuration(dear: int = 1) -> str:
    """Return the streams, each at a site of its own; ways are so many times as dear."""
    sites = zip(NAMES, ("north", "east", "south"), strict=True)
    return (
        'home = "var"\n'
        + "".join(STREAM.format(name=name, site=site) for name, site in sites)
        + SITES.format(7 * dear, 2 * dear, dear)
    )


@dataclass
class Streams:
    """Three streams in a lakehouse, and all rows that they were given."""

    spark: SparkSession
    settings: Settings
    rows: dict[str, list[Row]] = field(default_factory=lambda: {name: [] for name in NAMES})
    landed: int = 0

    def land(self, rows: dict[str, list[Row]]) -> None:
        """Write and ingest some more rows of some streams."""
        for name, some in rows.items():
            folder = Path(self.settings.streams[name].source.path).parent
            folder.mkdir(parents=True, exist_ok=True)
            self.landed += 1
            (folder / f"{self.landed}.ndjson").write_text("".join(json.dumps(row) + "\n" for row in some))
            self.rows[name] += some
            take_in(self.settings, self.spark, name)

    def run(self, query: str, slots: int = 5, joins: str = "pruned") -> MultiwayRun:
        """Return a query that joins batches so, by default pruned; with few slots several keys share one."""
        settings = self.settings
        asked = settings.of_kind(MultiwayQuery)[query]
        where = (engine_of(self.spark), settings.layout, asked, settings.streams)
        return MultiwayRun(*where, costs=settings.sites, slots=slots, joins=joins)

    def results(self, query: str, found: str = "") -> Counter[tuple[int, ...]]:
        """Return the times of the rows of all results, or of those that were found so."""
        rows = table_rows(self.settings.layout.multiway(query), "times_us", "found")
        return Counter(tuple(times) for times, how in rows if found in ("", how))

    def expected(self, query: MultiwayQuery, columns: str = "times_us") -> list[tuple[Any, ...]]:
        """Return all results, by what the query means, as another engine finds them; by default their times."""
        sides = [f"s{number}" for number in range(len(query.sides))]
        newest = f"greatest({', '.join(f'{side}.event_us' for side in sides)})"
        conditions = [
            f"{newest} - {alias}.event_us <= {side.window_us}"
            for alias, side in zip(sides, query.sides, strict=True)
        ]
        for alias, side in zip(sides, query.sides, strict=True):
            conditions += [
                f"s0.{first} = {alias}.{key}"
                for first, key in zip(query.sides[0].keys, side.keys, strict=True)
            ]
        tables_of = [
            f"(FROM {side.stream} WHERE {(side.where or 'true').replace('`', '')} AND {believed(query)}) {alias}"
            for alias, side in zip(sides, query.sides, strict=True)
        ]
        times = f"[{', '.join(f'{side}.event_us' for side in sides)}] AS times_us"
        shown = [f"s{output.side}.{output.column} AS {output.name}" for output in query.outputs]
        statement = (
            f"SELECT {columns} FROM (SELECT {', '.join([times, *shown])} FROM {', '.join(tables_of)} "
            f"WHERE {' AND '.join(conditions)})"
        )
        with duckdb.connect() as connection:
            for name, rows in self.rows.items():
                timed = [
                    row | {"event_us": row["ts"] * 1000, "arrival_us": row["received"] * 1000} for row in rows
                ]
                connection.register(name, pa.Table.from_pylist(timed))
            return [tuple(row) for row in connection.execute(statement).fetchall()]


def believed(query: MultiwayQuery) -> str:
    """Return which clocks a query believes."""
    return "true" if query.ahead_us is None else f"event_us - arrival_us <= {query.ahead_us}"


def some_rows(
    seed: int, part: int, count: int, names: Sequence[str] = NAMES, rooms: int = 6
) -> dict[str, list[Row]]:
    """Rows of twenty seconds, a third of them late by some seconds, with gaps; of streams in any order."""
    dice = np.random.default_rng((seed, part))

    def one(name: str) -> Row:
        ts = T0 + int(dice.integers(part * 20_000, (part + 1) * 20_000))
        delay = dice.exponential(9000) if dice.random() < 0.3 else dice.integers(0, 50)
        # One stream has clocks that are an hour ahead.
        is_ahead = name == "doors" and dice.random() < 0.05
        return {
            "ts": ts + 3_600_000 * is_ahead,
            "received": ts + int(delay),
            # Each stream has rooms that others lack.
            "room": None if dice.random() < 0.05 else f"r{dice.integers(rooms) + NAMES.index(name)}",
            "floor": None if dice.random() < 0.05 else int(dice.integers(2)),
            "value": None if dice.random() < 0.05 else float(dice.integers(0, 11)),
        }

    found = {name: [one(name) for _ in range(count)] for name in names}
    return {name: found[name] for name in dice.permutation(list(found)).tolist()}


def streams_of(
    spark: SparkSession, lakehouse_of: Callable[[str], Settings], folder: Path, queries: dict[str, str]
) -> Streams:
    """Return the streams with these queries registered."""
    (folder / "queries").mkdir()
    for name, text in queries.items():
        (folder / "queries" / f"{name}.sql").write_text(text)
    return Streams(spark, lakehouse_of(configuration()))
