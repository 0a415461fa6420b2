"""What a publisher is told alike of every registered query, read from the logs of its tables without an engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lakehouse.algorithms.rollup.levels import floor_to
from lakehouse.declare.columns import Column
from lakehouse.declare.stream import Stream, instant_us
from lakehouse.home.layout import Home
from lakehouse.home.table_log import read_log
from lakehouse.queries.registered import Query
from lakehouse.queries.runtime.batch_metrics import Figures

_TYPES = {"string": "VARCHAR", "int": "BIGINT", "double": "DOUBLE", "boolean": "BOOLEAN"}


def shared_facts(
    layout: Home, query: Query, streams: Mapping[str, Stream], figures: Figures, newest: Iterable[int | None]
) -> dict[str, Any]:
    """Return the fields of ``QueryFacts`` but for what is published; ``newest``: times of the sides, by batch."""
    return {
        "name": query.name,
        "description": query.description,
        "definition": query.definition(),
        "batches": figures.finished,
        **{name: figures.total(name) for name in ("rows", "missed", "refused", "unusable")},
        "time_us": greatest(row["time_us"] for row in figures.rows),
        "newest_us": greatest(newest),
        "latest_us": max(streams[stream].latest for stream in query.streams),
        "repairs": figures.last_repair,
        "repaired_through": figures.repaired,
        "repaired_us": instant_us(figures.repairs[-1]["committed_at"]) if figures.repairs else None,
        "repaired": figures.total_repaired("found"),
        "gone": figures.total_repaired("gone"),
        "late_files": files_of(layout.late(query.name)),
    }


def published_from(newest_us: int | None, published_us: int | None, step_us: int) -> int | None:
    """Return from when on a query is published, by whole steps; None for all of it."""
    if newest_us is None or published_us is None:
        return None
    return floor_to(step_us, newest_us - published_us)


def greatest(times: Iterable[int | None]) -> int | None:
    """Return the latest of some times, None where there is none."""
    return max((time for time in times if time is not None), default=None)


def files_of(table: Path) -> tuple[Path, ...]:
    """Return the data files of a table, none where there is no table."""
    log = read_log(table)
    return tuple(log.files) if log else ()


def stored_type(stream: Stream, column: str) -> str:
    """Return the type that DuckDB has for a column of a stream's raw table, or for one of its times."""
    found = stream.all_columns.get(column, Column(type="int"))
    is_exact = found.type in ("decimal", "double") and found.decimals is not None
    return f"DECIMAL(38, {found.decimals})" if is_exact else _TYPES[found.type]
