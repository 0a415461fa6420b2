"""A stream's tables -> small frames of deviations: one row per batch (or one in all), 0 where all is well.

Frames are taken as of the newest batch in the ledger when the check began, so that an ingest that goes on
meanwhile is not mistaken for a mistake. Raw rows are read only for batches that no earlier check passed; totals
cover them all.

Cost: one pass each over ledger and quarantine, one over the new raw rows (two with a declared identity), and one
count of all raw rows. Guarantee: what leaves this module are batch numbers, counts and differences, never a key,
a reading or an identity.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from quality.columns import any_of, count_if, is_not_a_number

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.catalog.layout import Home
    from lakehouse.catalog.stream import Stream

COUNTS = ("received", "requeued", "accepted", "quarantined", "duplicates")
GAINED = "coalesce(received, 0) + coalesce(requeued, 0)"
PLACED = "coalesce(accepted, 0) + coalesce(quarantined, 0) + coalesce(duplicates, 0)"


@dataclass(frozen=True)
class Frame:
    """The metrics of one table: rows of equal fields; those in ``place`` only say which row it is."""

    table: str
    place: tuple[str, ...]
    rows: Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Tables:
    """A stream's tables up to batch ``through``.

    ``since`` is the last batch that an earlier check passed, -1 where there is none; later ones are new.
    """

    stream: Stream
    ledger: DataFrame
    raw: DataFrame
    quarantine: DataFrame
    since: int
    through: int

    @property
    def new_raw(self) -> DataFrame:
        """The accepted rows that no earlier check has passed."""
        return self.raw.where((F.col("batch") > self.since) & (F.col("batch") <= self.through))


def open_tables(spark: SparkSession, home: Home, stream: Stream, since: int) -> Tables | None:
    """Return the stream's tables, None where nothing was ever ingested."""
    if not has_table(home.ledger(stream.name)):
        return None
    ledger = read_table(spark, home.ledger(stream.name))
    through = ledger.agg(F.max("batch")).first()
    if through is None or through[0] is None:
        return None
    raw = read_table(spark, home.raw(stream.name))
    quarantine = read_table(spark, home.quarantine(stream.name))
    within = F.col("batch") <= through[0]
    return Tables(stream, ledger.where(within), raw, quarantine.where(within), since, through[0])


def has_table(path: Path) -> bool:
    """Whether a Delta table has been created at this path."""
    return any((path / "_delta_log").glob("*.json"))


def read_table(spark: SparkSession, path: Path) -> DataFrame:
    """Return the current version of the Delta table at this path."""
    return spark.read.format("delta").load(str(path))


def measure(tables: Tables) -> list[Frame]:
    """Return the frames of ledger, totals, quarantine and, where there are new rows, raw."""
    ledger = collect(_with_quarantine(tables))
    frames = [
        Frame("ledger", ("batch",), [_ledger_row(row) for row in ledger]),
        Frame(
            "totals", (), [_totals_row(ledger, tables.raw.where(F.col("batch") <= tables.through).count())]
        ),
        Frame("quarantine", ("batch",), collect(_quarantine(tables))),
        Frame("raw", ("batch",), list(_raw_rows(tables, ledger))),
    ]
    return [frame for frame in frames if frame.rows]


def collect(rows: DataFrame) -> list[dict[str, Any]]:
    """Bring a small frame to the driver, in the order of its first column."""
    return sorted((row.asDict() for row in rows.collect()), key=lambda row: tuple(row.values())[:1])


def _with_quarantine(tables: Tables) -> DataFrame:
    standing = tables.quarantine.groupBy("batch").agg(F.count("*").alias("standing"))
    reasons = F.aggregate(F.map_values("reasons"), F.lit(0).cast("bigint"), lambda total, n: total + n)
    ledger = tables.ledger.groupBy("batch").agg(
        F.count("*").alias("entries"),
        *(F.sum(name).alias(name) for name in COUNTS),
        F.sum(F.abs(F.expr(GAINED) - F.expr(PLACED))).alias("imbalance"),
        F.sum(F.abs(F.coalesce(reasons, F.lit(0)) - F.coalesce("quarantined", F.lit(0)))).alias(
            "reasons_gap"
        ),
        F.sum(count_if(any_of(F.col(name).isNull() | (F.col(name) < 0) for name in COUNTS))).alias(
            "negative_counts"
        ),
    )
    return ledger.join(standing, "batch", "left").fillna(0, ["standing"])


def _ledger_row(row: dict[str, Any]) -> dict[str, Any]:
    # Rows put through again leave the quarantine of their old batch, whose entry in the ledger stays.
    beyond = row["standing"] - (row["quarantined"] or 0)
    return {
        "batch": row["batch"],
        "imbalance": row["imbalance"],
        "repeats": row["entries"] - 1,
        "negative_counts": row["negative_counts"],
        "reasons_gap": row["reasons_gap"],
        "quarantine_gap": max(0, beyond),
    }


def _totals_row(ledger: Sequence[dict[str, Any]], raw_rows: int) -> dict[str, Any]:
    total = {name: sum(row[name] or 0 for row in ledger) for name in (*COUNTS, "standing")}
    gone = total["accepted"] + total["quarantined"] + total["duplicates"]
    return {
        "imbalance": abs(total["received"] + total["requeued"] - gone),
        "raw_gap": abs(raw_rows - total["accepted"]),
        "quarantine_gap": abs(total["standing"] + total["requeued"] - total["quarantined"]),
        "quarantined_share": total["standing"] / max(1, total["received"]),
    }


def _quarantine(tables: Tables) -> DataFrame:
    known = tables.ledger.select("batch").distinct().withColumn("known", F.lit(1))
    return (
        tables.quarantine.join(F.broadcast(known), "batch", "left")
        .groupBy("batch")
        .agg(
            F.sum(count_if(F.coalesce(F.col("reason"), F.lit("")) == "")).alias("without_reason"),
            F.sum(count_if(F.col("source_file").isNull())).alias("without_origin"),
            F.sum(count_if(F.col("known").isNull())).alias("unknown_batches"),
        )
    )


def _raw_rows(tables: Tables, ledger: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    found = {row["batch"]: row for row in collect(_raw(tables))}
    repeated = {row["batch"]: row["repeated"] for row in collect(_repeated(tables))}
    accepted = {row["batch"]: row["accepted"] for row in ledger if row["batch"] > tables.since}
    for batch in sorted(accepted | found):
        row = found.get(batch, {})
        yield {
            "batch": batch,
            "gap_to_ledger": abs(row.get("found", 0) - (accepted.get(batch) or 0)),
            **{
                name: row.get(name, 0)
                for name in ("without_event_time", "out_of_bounds", "not_numbers", "without_origin")
            },
            "repeated_identities": repeated.get(batch, 0),
        }


def _raw(tables: Tables) -> DataFrame:
    low, high = tables.stream.event_time_bounds
    event = F.col("event_us")
    doubles = [name for name in tables.stream.measures if tables.stream.all_columns[name].type == "double"]
    return tables.new_raw.groupBy("batch").agg(
        F.count("*").alias("found"),
        F.sum(count_if(event.isNull())).alias("without_event_time"),
        F.sum(count_if((event < low) | (event >= high))).alias("out_of_bounds"),
        F.sum(count_if(any_of(is_not_a_number(name) for name in doubles))).alias("not_numbers"),
        F.sum(count_if(F.col("source_file").isNull() | (F.col("source_line") < 1))).alias("without_origin"),
    )


def _repeated(tables: Tables) -> DataFrame:
    """Count per new batch the rows whose identity stands again within ``duplicates_within``."""
    stream = tables.stream
    identity = ["record_hash"] if stream.identity_is_record else list(stream.identity)
    if not identity:
        return tables.new_raw.select("batch").limit(0).withColumn("repeated", F.lit(0))
    span = tables.new_raw.agg(F.min("event_us").alias("low_us"), F.max("event_us").alias("high_us"))
    near = (F.col("event_us") >= F.col("low_us") - stream.duplicates_within) & (
        F.col("event_us") <= F.col("high_us") + stream.duplicates_within
    )
    rows = tables.raw.where(F.col("batch") <= tables.through).join(F.broadcast(span), near)
    before = Window.partitionBy(*identity).orderBy("event_us")
    gap = F.col("event_us") - F.lag("event_us").over(before)
    newest = F.greatest("batch", F.lag("batch").over(before))
    pairs = rows.select(gap.alias("gap"), newest.alias("batch"))
    repeats = pairs.where((F.col("gap") <= stream.duplicates_within) & (F.col("batch") > tables.since))
    return repeats.groupBy("batch").agg(F.count("*").alias("repeated"))
