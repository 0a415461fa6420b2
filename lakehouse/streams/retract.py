"""Wrong rows taken back out of raw and of every level, with a record of who asked, why, what and how many.

Rows are named by their file, by values of columns, or by their identity, and by a range of event time. Only rows of
finished batches can be named, and only where all raw rows are kept: else nodes could not be built without them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse.algorithms.rollup.levels import KEPT_FOREVER_US
from lakehouse.declare.columns import sql_type
from lakehouse.declare.landing import name_in_landing
from lakehouse.declare.problems import Permanent
from lakehouse.declare.store_address import is_remote
from lakehouse.declare.stream import Source, Stream
from lakehouse.home.corrections import RETRACT, Correction, read_corrections
from lakehouse.home.layout import Home
from lakehouse.home.ledger import read_extent
from lakehouse.spark import tables
from lakehouse.streams import corrections, rollup
from lakehouse.streams.rebuild import check_range, widened
from lakehouse.streams.sources.manifest import Repeat
from lakehouse.streams.sources.manifest_store import ManifestStore
from lakehouse.streams.sources.messages import SCHEME


class RetractRefused(Permanent, RuntimeError):
    """The rows cannot be taken back out as asked."""


@dataclass(frozen=True)
class Wrong:
    """Which rows are wrong: all that is given must hold; ``where`` gives values of stored columns as text."""

    file: str | None = None
    where: Mapping[str, str] = field(default_factory=dict)
    from_us: int | None = None
    to_us: int | None = None

    def condition(self, stream: Stream) -> str:
        """Return the rows as SQL over raw.

        Raises:
            RetractRefused: when a column is not the stream's, or nothing is named.
        """
        parts = list(self._parts(stream))
        if not (self.file or self.where):
            raise RetractRefused(f"stream {stream.name}: name the rows by a file or by values of columns")
        return " AND ".join(parts)

    def _parts(self, stream: Stream) -> Iterator[str]:
        if self.file is not None:
            yield of_file(self._name(stream.source, self.file))
        for name, value in self.where.items():
            if name not in stream.all_columns:
                known = ", ".join(stream.all_columns)
                raise RetractRefused(f"stream {stream.name}: no column {name!r}; there are {known}")
            yield f"`{name}` <=> CAST({_quoted(value)} AS {sql_type(stream.all_columns[name])})"
        if self.from_us is not None:
            yield f"event_us >= {self.from_us}"
        if self.to_us is not None:
            yield f"event_us < {self.to_us}"

    @staticmethod
    def _name(source: Source, file: str) -> str:
        """Return the name by which raw knows a file that is given by path, URL or name.

        A partition of a topic, kafka:<topic>/<partition>, is no path.
        """
        if file.startswith(SCHEME) or is_remote(file):
            return name_in_landing(source.path, file)
        path = str(Path(file).expanduser().absolute())
        name = name_in_landing(source.path, path)
        return file if name == path and not file.startswith(("/", "~")) else name


def of_file(name: str) -> str:
    """Return the condition of the rows of a file, by its name below the landing folder."""
    return f"source_file = {_quoted(name)}"


def is_retracted(layout: Home, stream: str, repeat: Repeat) -> bool:
    """Whether all rows of the file that was read have been retracted since."""
    return any(
        each.kind == RETRACT and each.condition == of_file(repeat.read_as) and each.through >= repeat.batch
        for each in read_corrections(layout, stream)
    )


def retract(
    spark: SparkSession, layout: Home, stream: Stream, wrong: Wrong, by: str, why: str, dry_run: bool = False
) -> dict[str, Any]:
    """Take rows back out; return how many, of how many batches. Whoever calls holds the leases of raw and rollup.

    Raises:
        RetractRefused: when a batch is not finished, or the rows are not named as they can be.
        RawIncomplete: when raw rows of the time asked for are gone.
        RollupOutdated: when the rollup is not what the stream declares now.
    """
    condition = wrong.condition(stream)
    check_range(layout, stream, KEPT_FOREVER_US if wrong.from_us is None else wrong.from_us)
    through = _finished(layout, stream)
    rollup.append_new(spark, layout, stream)
    rows = tables.read(spark, layout.raw(stream.name)).where(f"({condition}) AND batch <= {through}")
    low, high = rows.agg(F.min("event_us"), F.max("event_us")).collect()[0]
    if low is not None:
        check_range(layout, stream, widened(stream, low, None)[0])
    batches = corrections.per_batch(rows) if low is not None else {}
    figures = {
        "rows": sum(batches.values()),
        "batches": len(batches),
        "from_us": low,
        "to_us": high and high + 1,
    }
    if batches and not dry_run:
        asked = Correction(
            *(0, RETRACT, False, by, why, condition, condition, low, high + 1, through),
            *(figures["rows"], batches, datetime.now(UTC)),
        )
        begun = corrections.begin(layout, stream, asked)
        corrections.carry_out(spark, layout, stream, begun)
        figures["correction"] = begun.number
    return figures


def _finished(layout: Home, stream: Stream) -> int:
    """Return the last finished batch, once no other waits."""
    last = read_extent(layout, stream.name).batch
    if ManifestStore(layout.manifests(stream.name)).last_batch > last:
        raise RetractRefused(
            f"stream {stream.name}: batch {last + 1} was begun and is not finished; it may hold such rows too: run "
            "`tidemark run` first"
        )
    return last


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
