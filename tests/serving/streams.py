"""Random streams as rows, their folded nodes as parquet, and the truth about any range of them."""

from __future__ import annotations

import json
import math
import random
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse.algorithms.rollup.levels import KEPT_FOREVER_US, Level, horizons
from lakehouse.serving.publish.changes import create_sums, pairs
from lakehouse.serving.publish.snapshot import PublishedMeasure, StreamSnapshot, Total
from lakehouse.storage.stores.store_path import Location

MEASURES = (
    PublishedMeasure("temp", "double"),
    PublishedMeasure("hits", "int", 0, is_sum=True),
    PublishedMeasure("price", "decimal", 2),
)
GROUPINGS = ((), ("device",), ("device", "zone"))
_SCHEMA = pa.schema(
    [
        ("event_us", pa.int64()),
        ("device", pa.string()),
        ("zone", pa.int64()),
        ("temp", pa.float64()),
        ("hits", pa.int64()),
        ("price", pa.decimal128(38, 2)),
        ("batch", pa.int64()),
    ]
)


@dataclass(frozen=True)
class Row:
    """One accepted row."""

    event_us: int
    device: str | None
    zone: int
    temp: float | None
    hits: int | None
    price: Decimal | None
    batch: int = 1


@dataclass(frozen=True)
class RandomStream:
    """A stream, its rows, and the groupings and levels it is rolled up by."""

    name: str
    levels: tuple[Level, ...]
    rows: list[Row] = field(repr=False)
    groupings: tuple[tuple[str, ...], ...] = field(default=GROUPINGS, repr=False)
    latest_us: int = 50
    quarantine: dict[str, int] = field(default_factory=dict)
    # When its batches were finished, as SQL over their rows.
    committed_at: str = "TIMESTAMPTZ '2026-01-01 00:00:00+00'"

    @property
    def newest_us(self) -> int | None:
        """The newest event time."""
        return max((row.event_us for row in self.rows), default=None)

    @property
    def horizons(self) -> list[int]:
        """The horizon of every level."""
        if self.newest_us is None:
            return [KEPT_FOREVER_US] * len(self.levels)
        return horizons(self.levels, self.newest_us)

    def truth(
        self, measure: str, aggregate: str, start_us: int, end_us: int, where: dict[str, str | None]
    ) -> float | None:
        """Return the aggregate over the rows themselves."""
        rows = [row for row in self.rows if start_us <= row.event_us < end_us and _matches(row, where)]
        if measure == "*":
            return float(len(rows))
        values = [value for row in rows if (value := getattr(row, measure)) is not None]
        return _aggregate(aggregate, values)

    def write(self, folder: Path) -> StreamSnapshot:
        """Write nodes, ledger and raw rows below the folder; return what a publisher is told."""
        table = self._table()
        write_delta(_with_places(table), folder / "raw")
        with _over(table) as connection:
            nodes = self._nodes(connection, folder / "nodes")
            _write_ledger(connection, folder / "ledger", self.committed_at)
            return self._facts(folder, _totals(connection, nodes))

    def write_nodes(self, folder: Path) -> Path:
        """Write only nodes below the folder; return where they are."""
        with _over(self._table()) as connection:
            self._nodes(connection, folder / "nodes")
        return folder / "nodes"

    def write_ledger(self, folder: Path) -> Path:
        """Write only the ledger below the folder; return where it is."""
        with _over(self._table()) as connection:
            _write_ledger(connection, folder / "ledger", self.committed_at)
        return folder / "ledger"

    def _table(self) -> pa.Table:
        return pa.Table.from_pylist([vars(row) for row in self.rows], _SCHEMA)

    def _facts(self, folder: Path, totals: list[Total]) -> StreamSnapshot:
        return StreamSnapshot(
            name=self.name,
            definition=f"levels {self.levels} groupings {self.groupings}",
            groupings=self.groupings,
            measures=MEASURES,
            levels=self.levels,
            horizons=self.horizons,
            newest_us=self.newest_us,
            confirmed_us=self.newest_us,
            batch=max((row.batch for row in self.rows), default=0),
            latest_us=self.latest_us,
            raw_path=str(folder / "raw"),
            nodes=folder / "nodes",
            ledger=folder / "ledger",
            earliest_us=min((row.event_us for row in self.rows), default=None),
            quarantine=self.quarantine,
            totals=totals,
        )

    def _nodes(self, connection: duckdb.DuckDBPyConnection, folder: Path) -> str:
        folder.mkdir(parents=True, exist_ok=True)
        parts = [self._level(number, level) for number, level in enumerate(self.levels, start=1)]
        target = folder / "part-0.parquet"
        connection.execute(f"COPY ({' UNION ALL BY NAME '.join(parts)}) TO '{target}' (FORMAT parquet)")
        return f"read_parquet('{target}')"

    def _level(self, number: int, level: Level) -> str:
        start = f"event_us - ((event_us % {level.width_us}) + {level.width_us}) % {level.width_us}"
        measures = ", ".join(_node_columns(measure) for measure in MEASURES)
        sets = ", ".join(f"({', '.join(('start_us', *grouping))})" for grouping in self.groupings)
        # The bits of GROUPING say which keys a set lacks.
        lacking = [2 * ("device" not in keys) + ("zone" not in keys) for keys in self.groupings]
        return f"""
            SELECT {number} AS level, list_position({lacking}, GROUPING(device, zone)) - 1 AS "grouping",
                device, zone, start_us, count(*) AS "rows",
                min(event_us) AS first_us, max(event_us) AS last_us, {measures}
            FROM (SELECT *, {start} AS start_us FROM rows_of_stream)
            WHERE start_us >= {self.horizons[number - 1]} GROUP BY GROUPING SETS ({sets})
        """


@contextmanager
def _over(table: pa.Table) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.register("rows_of_stream", table)
        create_sums(connection)
        yield connection


def _node_columns(measure: PublishedMeasure) -> str:
    name, seen = measure.name, f"FILTER ({measure.name} IS NOT NULL)"
    if measure.decimals is None:
        pair = f"totalled({pairs(name, '0.0::DOUBLE')})"
        total = f"({pair}).total AS {name}__sum, ({pair}).carry AS {name}__carry"
    else:
        total = f"CAST(sum({name}) AS DECIMAL(38, {measure.decimals})) AS {name}__sum"
    return (
        f"count({name}) AS {name}__n, {total}, min({name}) AS {name}__min, max({name}) AS {name}__max, "
        f"min(event_us) {seen} AS {name}__first_us, max(event_us) {seen} AS {name}__last_us"
    )


def _totals(connection: duckdb.DuckDBPyConnection, nodes: str) -> list[Total]:
    sums = ", ".join(f"coalesce(sum({m.name}__n), 0)::BIGINT, sum({m.name}__sum)" for m in MEASURES)
    rows = connection.execute(
        f'SELECT level, "grouping", sum("rows")::BIGINT, {sums} FROM {nodes} GROUP BY ALL'
    ).fetchall()
    return [
        Total(row[0], row[1], measure.name, row[2], row[3 + 2 * place], row[4 + 2 * place])
        for row in rows
        for place, measure in enumerate(MEASURES)
    ]


def _with_places(table: pa.Table) -> pa.Table:
    """Return raw rows with where they were read: one file, line by line."""
    count = table.num_rows
    places = {
        "arrival_us": pa.nulls(count, pa.int64()),
        "source_file": pa.array(["a.ndjson"] * count, pa.string()),
        "source_line": pa.array(range(1, count + 1), pa.int64()),
        "source_item": pa.array([0] * count, pa.int32()),
    }
    for name, column in places.items():
        table = table.append_column(name, column)
    return table


def _write_ledger(connection: duckdb.DuckDBPyConnection, folder: Path, committed_at: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    connection.execute(
        f"""
        COPY (
            SELECT batch, 'files' AS kind, 1 AS files, count(*) AS records, count(*) + 3 AS received, 0 AS requeued,
                count(*) AS accepted, 2 AS quarantined, 1 AS duplicates, 0 AS revised, 4 AS filtered,
                MAP {{'bad_value': 2}} AS reasons,
                MAP {{'temp': count(*) - count(temp)}} AS missing, min(event_us) AS min_event_us,
                max(event_us) AS max_event_us,
                max(max(event_us)) OVER (ORDER BY batch) AS newest_us, 3 AS late, [1, 1, 1] AS lateness,
                7500 AS max_lateness_us,
                ['b.ndjson: gained volts'] AS schema_changes,
                ['b.ndjson has the content of a.ndjson read in batch 1; not read again']
                AS repeated_files, MAP {{'t/0': 40, 't/1': 2}} AS lost,
                {committed_at} AS committed_at
            FROM rows_of_stream GROUP BY batch
        ) TO '{folder}/part-0.parquet' (FORMAT parquet)
        """
    )


def write_delta(table: pa.Table, folder: Location) -> None:
    """Write a Delta table of one commit by hand: no JVM."""
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / "part-0.parquet")
    kinds = {"int64": "long", "int32": "integer", "string": "string", "double": "double", "binary": "binary"}
    kinds |= {"decimal128(38, 2)": "decimal(38,2)", "timestamp[us, tz=UTC]": "timestamp", "bool": "boolean"}

    def kind(of: pa.DataType) -> Any:
        if pa.types.is_list(of):
            return {"type": "array", "elementType": kinds[str(of.value_type)], "containsNull": True}
        return kinds[str(of)]

    columns = [{"name": f.name, "type": kind(f.type), "nullable": True, "metadata": {}} for f in table.schema]
    metadata = {
        "id": str(uuid.uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": columns}),
        "partitionColumns": [],
        "configuration": {},
    }
    size = (folder / "part-0.parquet").stat().st_size
    added = {
        "path": "part-0.parquet",
        "partitionValues": {},
        "size": size,
        "modificationTime": 0,
        "dataChange": True,
    }
    actions = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": metadata},
        {"add": added},
    ]
    (folder / "_delta_log").mkdir(exist_ok=True)
    log = Path(folder) / "_delta_log" / f"{0:020d}.json"
    log.write_text("".join(json.dumps(action) + "\n" for action in actions), encoding="utf-8")


def _matches(row: Row, where: dict[str, str | None]) -> bool:
    return all(
        (None if (v := getattr(row, key)) is None else str(v)) == value for key, value in where.items()
    )


def _aggregate(aggregate: str, values: Sequence[float | int | Decimal]) -> float | None:
    if aggregate == "count":
        return float(len(values))
    if not values:
        return None
    if aggregate in ("min", "max"):
        return float(min(values) if aggregate == "min" else max(values))
    total = Fraction(math.fsum(values)) if isinstance(values[0], float) else sum(map(Fraction, values))
    if aggregate == "sum":
        return float(total)
    return float(total / len(values))


def random_rows(seed: int, count: int, span_us: int, start_us: int = 0) -> list[Row]:
    """Return rows with late ones, gaps, missing values and keys, values of both signs, repeated and huge ones."""
    dice = random.Random(seed)
    return [_random_row(dice, span_us, start_us) for _ in range(count)]


def _random_row(dice: random.Random, span_us: int, start_us: int) -> Row:
    times = (
        dice.randrange(span_us),
        int(span_us * (1 - dice.random() ** 3)),
        dice.randrange(7) * span_us // 7,
    )
    temp = dice.choice([dice.uniform(-40, 60), dice.gauss(0, 1e-3), 0.1, -7.25, 1e9 * dice.random(), None])
    hits = dice.choice([dice.randrange(-5, 100), 3, 2**40, None])
    hits = 2**62 if start_us < 0 and hits == 2**40 else hits
    price = dice.choice([Decimal(dice.randrange(-100_000, 100_000)).scaleb(-2), Decimal("0.10"), None])
    device = dice.choice(["a", "b", "it's, {odd}=1", None])
    event = start_us + min(dice.choice(times), span_us - 1)
    return Row(event, device, dice.randrange(3), temp, hits, price, dice.randrange(1, 4))
