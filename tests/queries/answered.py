"""A registered join-aggregate with tables made by hand, and settings that hold it; no JVM.

Times are seconds after START_US.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakehouse.config.stream import Stream
from lakehouse.queries.aggregate.query import AggregateQuery
from lakehouse.queries.kind import definition_of, written_as
from lakehouse.queries.registered import parse_query
from lakehouse.queries.runtime.batch_manifest import (
    BatchManifest,
    Scale,
    Scales,
    last_planned,
    write_manifest,
)
from lakehouse.settings import Settings, load_settings
from lakehouse.storage.layout import Home
from lakehouse.storage.query_meaning import replace_definition
from tests.queries.joined import write_ledger
from tests.serving.streams import write_delta

SECOND = 1_000_000
START_US = 1_767_225_600_000_000  # 2026-01-01
AT = datetime(2026, 1, 2, tzinfo=UTC)
EVERY = 5
TEXT = """\
-- places where many ask and are answered
SELECT a.place, COUNT(*) AS n, AVG(b.temp) AS warmth
FROM asks [10 SECONDS] a, replies [1 MINUTE] b
WHERE a.place = b.place AND a.temp > 1
GROUP BY a.place HAVING COUNT(*) > 5 AND MAX(b.temp) < 90
EVERY 5 SECONDS SLACK 30 SECONDS ALARM
"""
PLAIN = """\
SELECT COUNT(*) AS n, MIN(b.temp) AS coldest FROM asks [10 SECONDS] a, replies [10 SECONDS] b
WHERE a.place = b.place EVERY 5 SECONDS
"""
FLOORS = """\
SELECT a.place, b.floor AS storey, COUNT(*) AS n FROM asks [10 SECONDS] a, replies [10 SECONDS] b
WHERE a.place = b.place GROUP BY a.place, b.floor EVERY 5 SECONDS
"""
_STREAM = """\
[streams.{name}]
event_time = {{ column = "ts", unit = "us" }}
levels = ["1m forever"]
latest = "{latest}"
source = {{ path = "landing/{name}/*", format = "ndjson" }}
columns = {{ ts = "int", place = "string", floor = "int", temp = "double" }}
"""
_COUNTS = ("rows", "late", "missed", "refused", "unusable", "held", "bytes")
_LONG = pa.int64()
FIGURES = pa.schema(
    [("batch", _LONG), ("bucket", pa.int32())]
    + [(name, _LONG) for name in (*_COUNTS, "answered", "revised", "time_us")]
    + [("missed_us", pa.list_(_LONG)), ("horizon_us", _LONG)]
    + [("newest_us", pa.list_(_LONG)), ("committed_at", pa.timestamp("us", tz="UTC"))]
)
REPAIRS = pa.schema(
    [(name, _LONG) for name in ("repair", "through", "looked_at", "found", "gone", "time_us")]
    + [("withdrawn", _LONG), ("stream", pa.string()), ("correction", _LONG)]
    + [("by", pa.string()), ("why", pa.string())]
    + [("committed_at", pa.timestamp("us", tz="UTC"))]
)
LATE = pa.schema(
    [("what", pa.string()), ("bucket", pa.int32()), ("side", pa.int32())]
    + [("source_file", pa.string()), ("source_line", _LONG), ("source_item", pa.int32())]
    + [(name, _LONG) for name in ("row", "event_us", "horizon_us", "time_us", "edge_us", "batch")]
)
_TYPES = {"string": pa.string(), "int": _LONG, "double": pa.float64()}


def us(second: float | None) -> int | None:
    """Return the microseconds of a second after the start."""
    return None if second is None else START_US + round(second * SECOND)


def declare(folder: Path, **texts: str) -> Settings:
    """Write a configuration of two streams with these queries, ``busy`` by default, and return it as read."""
    streams = (("asks", "20s"), ("replies", "5s"))
    config = "\n".join(_STREAM.format(name=name, latest=latest) for name, latest in streams)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tidemark.toml").write_text(config, encoding="utf-8")
    (folder / "queries").mkdir(exist_ok=True)
    for name, text in (texts or {"busy": TEXT}).items():
        (folder / "queries" / f"{name}.sql").write_text(text, encoding="utf-8")
    return load_settings(folder / "tidemark.toml")


def query_of(text: str, streams: dict[str, Stream], name: str = "busy") -> AggregateQuery:
    """Return the aggregate that a text is."""
    query = parse_query(name, text, streams)
    assert isinstance(query, AggregateQuery)
    return query


@dataclass(frozen=True)
class Answer:
    """What a tick and group was answered; ``value`` is that of every measure but the first, which counts."""

    tick: int
    n: int = 6
    group: tuple[Any, ...] = ("hall",)
    holds: bool = True
    revision: int = 0
    found: str = "online"
    batch: int = 1
    value: float | None = 1.5


@dataclass(frozen=True)
class Alarm:
    """One change of an alarm."""

    alarm: str
    raised: int
    cleared: int | None = None
    group: tuple[Any, ...] = ("hall",)
    state: str = "raised"
    change: int = 0
    merged_into: str | None = None
    found: str = "online"
    batch: int = 1


@dataclass(frozen=True)
class Logged:
    """A row that counts only from ``horizon`` on."""

    event: int
    horizon: int
    batch: int = 1
    what: str = "missed"


@dataclass(frozen=True)
class Aggregated:
    """Everything in the tables of an aggregate.

    ``batches`` and ``repairs`` (with the batch each goes up to) are finished.
    Every batch has two buckets, which take in 10 rows each, and answers up to ``time``.
    """

    query: AggregateQuery
    streams: dict[str, Stream]
    answers: Sequence[Answer] = ()
    alarms: Sequence[Alarm] = ()
    missed_rows: Sequence[Logged] = ()
    batches: int = 1
    repairs: Sequence[int] = ()
    time: int | None = 100
    newest: int = 110
    scales: Scales = (Scale(1, 8),)

    def write(self, home: Home) -> Home:
        """Write all tables, plans and ledgers; what is not finished has rows and no figures."""
        name = self.query.name
        replace_definition(home.batch_manifests(name), definition_of(self.query), written_as(self.query))
        # Written once more, a home keeps the manifests that it has.
        for number in range(last_planned(home.batch_manifests(name)) + 1, self.batches + 1):
            write_manifest(
                home.batch_manifests(name),
                "batch",
                BatchManifest(number, ((number - 1, number),) * len(self.query.sides), scales=self.scales),
            )
        for stream in {side.stream for side in self.query.sides}:
            write_ledger(home, stream, max(self.batches, 1))
        tables = [
            (home.answers(name), self._answer_schema(), [self._answer(each) for each in self.answers]),
            (home.missed_rows(name), LATE, [self._logged(each) for each in self.missed_rows]),
            (home.repairs(name), REPAIRS, [self._repair(n) for n in range(1, len(self.repairs) + 1)]),
            (home.queries(name), FIGURES, [row for n in range(self.batches) for row in self._figures(n + 1)]),
        ]
        if self.query.is_alarm:
            tables.append(
                (home.alarms(name), self._alarm_schema(), [self._alarm(each) for each in self.alarms])
            )
        for path, schema, rows in tables:
            write_delta(pa.Table.from_pylist(rows, schema), path)
        return home

    @property
    def newest_answers(self) -> dict[tuple[int, tuple[Any, ...]], Answer]:
        """The newest finished answer of each tick and group."""
        done = {"online": self.batches, "repair": len(self.repairs)}
        told = [each for each in self.answers if each.batch <= done[each.found]]
        return {(each.tick, each.group): each for each in sorted(told, key=lambda each: each.revision)}

    def _groups(self) -> list[tuple[str, pa.DataType]]:
        sides = self.query.sides
        columns = [(each, self.streams[sides[each.side].stream].all_columns) for each in self.query.groups]
        return [(each.name, _TYPES[known[each.column].type]) for each, known in columns]

    def _answer_schema(self) -> pa.Schema:
        kinds = [
            (each.name, _LONG if each.function == "count" else pa.float64()) for each in self.query.measures
        ]
        rest = [("holds", pa.bool_()), ("revision", pa.int32()), ("found", pa.string()), ("batch", _LONG)]
        return pa.schema([("tick_us", _LONG), *self._groups(), *kinds, *rest])

    def _answer(self, each: Answer) -> dict[str, Any]:
        first, *others = self.query.measures
        same = {name: getattr(each, name) for name in ("holds", "revision", "found", "batch")}
        values = {first.name: each.n} | {measure.name: each.value for measure in others}
        return {"tick_us": us(each.tick), **self._named(each.group), **values, **same}

    def _alarm_schema(self) -> pa.Schema:
        times = [("state", pa.string()), ("raised_us", _LONG), ("cleared_us", _LONG), ("change", pa.int32())]
        rest = [("merged_into", pa.string()), ("found", pa.string()), ("batch", _LONG)]
        return pa.schema([("alarm", pa.string()), *self._groups(), *times, *rest])

    def _alarm(self, each: Alarm) -> dict[str, Any]:
        times = {"raised_us": us(each.raised), "cleared_us": us(each.cleared)}
        return {**vars(each), **self._named(each.group), **times}

    def _named(self, group: tuple[Any, ...]) -> dict[str, Any]:
        return dict(zip((each.name for each in self.query.groups), group, strict=True))

    def _logged(self, each: Logged) -> dict[str, Any]:
        times = {"event_us": us(each.event), "horizon_us": us(each.horizon), "time_us": us(each.horizon)}
        return {"what": each.what, "bucket": 0, "side": 0, "row": each.event, **times, "batch": each.batch}

    def _figures(self, batch: int) -> list[dict[str, Any]]:
        found = [each for each in self.answers if (each.found, each.batch) == ("online", batch)]
        kinds = [each.what for each in self.missed_rows if each.batch == batch]
        first = sum(each.revision == 0 for each in found)
        newest = [us(self.newest), *[None] * (len(self.query.sides) - 1)]
        times = {"time_us": us(self.time), "newest_us": newest}
        stamp = {"batch": batch, **times, "committed_at": AT + timedelta(minutes=batch)}
        taken = {"rows": 10, "late": 2, "unusable": 1}
        buckets = [
            {"bucket": 0, **taken, "missed": kinds.count("missed"), "refused": 0, "held": 30, "bytes": 900},
            {"bucket": 3, **taken, "missed": 0, "refused": kinds.count("refused"), "held": 12, "bytes": 400},
        ]
        whole = {"bucket": -1, "answered": first, "revised": len(found) - first}
        return [{**stamp, **row} for row in (*buckets, whole)]

    def _repair(self, number: int) -> dict[str, Any]:
        found = [each for each in self.answers if (each.found, each.batch) == ("repair", number)]
        through = self.repairs[number - 1]
        after = self.repairs[number - 2] if number > 1 else 0
        logged = [
            each for each in self.missed_rows if each.what == "missed" and after < each.batch <= through
        ]
        counts = {"looked_at": len(logged), "found": len(found), "gone": 1 if number == 1 else 0}
        stamp = {"time_us": us(self.time), "committed_at": AT + timedelta(hours=number)}
        return {"repair": number, "through": through, **counts, **stamp}
