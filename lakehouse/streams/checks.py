"""A stream's tables -> small frames of deviations: one row per batch (or one in all), 0 where all is well.

Frames are taken as of the newest batch in the ledger when the check began, so that an ingest that goes on
meanwhile is not mistaken for a mistake. Raw rows are read only for batches that no earlier check passed; totals
cover them all.

Cost: one pass each over ledger and quarantine, one over the new raw rows (two with a declared identity), and one
count of all raw rows; what they find is joined on the driver, a row per batch. Guarantee: what leaves this module
are batch numbers, counts and differences, never a key, a reading or an identity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from lakehouse.home.corrections import RETENTION, RETRACT, Correction, read_corrections, removed
from lakehouse.home.table_log import newest_version
from lakehouse.spark.deviations import Frame, any_of, collect, count_if, is_not_a_number
from lakehouse.spark.tables import exists, read

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from lakehouse.declare.stream import Stream
    from lakehouse.home.layout import Home

COUNTS = ("received", "requeued", "accepted", "quarantined", "duplicates")
GAINED = "coalesce(received, 0) + coalesce(requeued, 0)"
RAW_CLAIMS = ("without_event_time", "out_of_bounds", "not_numbers", "without_origin")
PLACED = "coalesce(accepted, 0) + coalesce(quarantined, 0) + coalesce(duplicates, 0)"


@dataclass(frozen=True)
class Tables:
    """A stream's tables up to batch ``through``; the ledger is already here, one row per batch.

    ``rollup_version``: the version of the rollup that holds no batch which the ledger lacks, None where there is none.

    ``since`` is the last batch that an earlier check passed, -1 where there is none; later ones are new.
    """

    stream: Stream
    ledger: Sequence[dict[str, Any]]
    raw: DataFrame
    quarantine: DataFrame
    since: int
    corrections: Sequence[Correction] = ()
    rollup_version: int | None = None

    @property
    def through(self) -> int:
        """The newest batch in the ledger."""
        return int(self.ledger[-1]["batch"])

    def accepted(self, through: int) -> int:
        """Return the rows accepted up to and including a batch, less those retracted since."""
        taken_in = sum(row["accepted"] or 0 for row in self.ledger if row["batch"] <= through)
        return taken_in - removed(self.corrections, [RETRACT], through)

    def kept(self) -> dict[int, tuple[int, int]]:
        """Return per batch how many raw rows there are, least and most: a removal that goes on may be either."""
        gone = Counter[int]()
        going = Counter[int]()
        for found in self.corrections:
            (gone if found.done else going).update(found.batches)
        most = {row["batch"]: (row["accepted"] or 0) - gone[row["batch"]] for row in self.ledger}
        return {batch: (rows - going[batch], rows) for batch, rows in most.items()}


def open_tables(spark: SparkSession, home: Home, stream: Stream, since: int) -> Tables | None:
    """Return the stream's tables, None where nothing was ever ingested."""
    if not exists(home.ledger(stream.name)):
        return None
    # Batches may come while it checks: what was built when the ledger was read is built of batches that are in it.
    built = newest_version(home.rollup(stream.name))
    ledger = ledger_rows(read(spark, home.ledger(stream.name)))
    corrections = read_corrections(home, stream.name)
    raw, quarantine = (read(spark, path(stream.name)) for path in (home.raw, home.quarantine))
    return Tables(stream, ledger, raw, quarantine, since, corrections, built) if ledger else None


def ledger_rows(ledger: DataFrame) -> list[dict[str, Any]]:
    """Return the ledger by batch: its counts, and what is wrong in itself."""
    reasons = F.aggregate(F.map_values("reasons"), F.lit(0).cast("bigint"), lambda total, n: total + n)
    unlike = F.coalesce(reasons, F.lit(0)) - F.coalesce("quarantined", F.lit(0))
    return collect(
        ledger.groupBy("batch").agg(
            *(F.sum(name).alias(name) for name in COUNTS),
            F.sum(F.abs(F.expr(GAINED) - F.expr(PLACED))).alias("imbalance"),
            (F.count("*") - 1).alias("repeats"),
            F.sum(count_if(any_of(_not_a_count(name) for name in COUNTS))).alias("negative_counts"),
            F.sum(F.abs(unlike)).alias("reasons_gap"),
        )
    )


def measure(tables: Tables) -> list[Frame]:
    """Return the frames of ledger and totals, and of quarantine and raw where they have rows to judge."""
    quarantine = {row["batch"]: row for row in collect(_quarantine(tables))}
    raw_rows = tables.raw.where(F.col("batch") <= tables.through).count()
    frames = [
        Frame("ledger", ("batch",), [_ledger_row(row, quarantine) for row in tables.ledger]),
        Frame("totals", (), [_totals_row(tables, quarantine, raw_rows)]),
        Frame("quarantine", ("batch",), [_quarantine_row(tables, row) for row in quarantine.values()]),
        Frame("raw", ("batch",), list(_raw_rows(tables)) if tables.since < tables.through else []),
    ]
    return [frame for frame in frames if frame.rows]


def _not_a_count(name: str) -> Column:
    return F.col(name).isNull() | (F.col(name) < 0)


def _ledger_row(row: dict[str, Any], quarantine: dict[int, dict[str, Any]]) -> dict[str, Any]:
    held = quarantine.get(row["batch"], {}).get("held", 0)
    found = {name: row[name] for name in ("batch", "imbalance", "repeats", "negative_counts", "reasons_gap")}
    return found | {"quarantine_gap": abs(held - (row["quarantined"] or 0))}


def _totals_row(tables: Tables, quarantine: dict[int, dict[str, Any]], raw_rows: int) -> dict[str, Any]:
    total = {name: sum(row[name] or 0 for row in tables.ledger) for name in COUNTS}
    held, kept = sum(row["held"] for row in quarantine.values()), tables.kept().values()
    gone = total["accepted"] + total["quarantined"] + total["duplicates"]
    # Records put through again stay in quarantine; what became of them is in the batch that took them.
    still_rejected = total["quarantined"] - total["requeued"]
    return {
        "imbalance": abs(total["received"] + total["requeued"] - gone),
        "raw_gap": _outside(raw_rows, sum(low for low, _ in kept), sum(high for _, high in kept)),
        "quarantine_gap": abs(held - total["quarantined"]),
        "unfinished_corrections": sum(
            not found.done and found.kind != RETENTION for found in tables.corrections
        ),
        "rejected_share": still_rejected / max(1, total["received"]),
    }


def _quarantine(tables: Tables) -> DataFrame:
    rows = tables.quarantine.where(F.col("batch") <= tables.through)
    return rows.groupBy("batch").agg(
        F.count("*").alias("held"),
        F.sum(count_if(F.coalesce(F.col("reason"), F.lit("")) == "")).alias("without_reason"),
        F.sum(count_if(F.col("source_file").isNull())).alias("without_origin"),
    )


def _quarantine_row(tables: Tables, row: dict[str, Any]) -> dict[str, Any]:
    is_known = any(entry["batch"] == row["batch"] for entry in tables.ledger)
    found = {name: row[name] for name in ("batch", "without_reason", "without_origin")}
    return found | {"unknown_batches": 0 if is_known else row["held"]}


def _raw_rows(tables: Tables) -> Iterator[dict[str, Any]]:
    found = {row["batch"]: row for row in collect(_raw(tables))}
    repeated = {row["batch"]: row["repeated"] for row in collect(_repeated(tables, list(found.values())))}
    new = {row["batch"] for row in tables.ledger if row["batch"] > tables.since}
    kept = tables.kept()
    for batch in sorted(new | set(found)):
        row = found.get(batch, {})
        yield {
            "batch": batch,
            "gap_to_ledger": _outside(row.get("found", 0), *kept.get(batch, (0, 0))),
            **{name: row.get(name, 0) for name in RAW_CLAIMS},
            "repeated_identities": repeated.get(batch, 0),
        }


def _outside(found: int, least: int, most: int) -> int:
    return max(least - found, found - most, 0)


def _raw(tables: Tables) -> DataFrame:
    low, high = tables.stream.event_time_bounds
    event = F.col("event_us")
    # Lines are counted from 1, offsets from 0.
    first_line = 0 if tables.stream.source.kind == "kafka" else 1
    doubles = [name for name in tables.stream.measures if tables.stream.all_columns[name].type == "double"]
    claims = (
        event.isNull(),
        (event < low) | (event >= high),
        any_of(is_not_a_number(name) for name in doubles),
        F.col("source_file").isNull() | (F.col("source_line") < first_line),
    )
    new = tables.raw.where((F.col("batch") > tables.since) & (F.col("batch") <= tables.through))
    return new.groupBy("batch").agg(
        F.count("*").alias("found"),
        F.min("event_us").alias("low_us"),
        F.max("event_us").alias("high_us"),
        *(F.sum(count_if(claim)).alias(name) for name, claim in zip(RAW_CLAIMS, claims, strict=True)),
    )


def _repeated(tables: Tables, new: Sequence[dict[str, Any]]) -> DataFrame:
    """Count per new batch the rows whose identity stands again within ``duplicates_within``."""
    stream = tables.stream
    identity = ["record_hash"] if stream.identity_is_record else list(stream.identity)
    timed = [row for row in new if row["low_us"] is not None]
    if not identity or not timed:
        return tables.raw.select("batch").limit(0).withColumn("repeated", F.lit(0))
    low = min(row["low_us"] for row in timed) - stream.duplicates_within
    high = max(row["high_us"] for row in timed) + stream.duplicates_within
    rows = tables.raw.where((F.col("batch") <= tables.through) & F.col("event_us").between(low, high))
    before = Window.partitionBy(*identity).orderBy("event_us")
    gap = F.col("event_us") - F.lag("event_us").over(before)
    newest = F.greatest("batch", F.lag("batch").over(before))
    pairs = rows.select(gap.alias("gap"), newest.alias("batch"))
    repeats = pairs.where((F.col("gap") <= stream.duplicates_within) & (F.col("batch") > tables.since))
    return repeats.groupBy("batch").agg(F.count("*").alias("repeated"))
