"""A stream's tables -> small frames of deviations: one row per batch (or one in all), 0 where all is well.

    new rows      of batches that no check has passed: each row of ledger, quarantine and raw is judged
    totals        of all batches: sums of the ledger that the last check kept, and the rows that the logs tell of
    everything    each day's first check, or one that is asked for, takes all rows for new

Frames are taken as of the newest batch in the ledger when the check began, so that an ingest that goes on
meanwhile is not mistaken for a mistake. Cost: one Spark job over files with new rows, and one that looks for repeated
identities: in all raw rows of their time where these are few, else among the new ones, and in all of them when
everything is checked. Guarantee: what leaves this module are batch numbers, counts and differences, never a key, a
reading or an identity, but of a rule of the stream three examples of rows that break it, whose texts are masked, and
the keys of the sources that break it most.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.checks.file_figures import (
    QUARANTINE,
    RAW,
    RAW_CLAIMS,
    ROLLUP,
    Figures,
    Measured,
    Measuring,
    Row,
    added,
    file_figures,
)
from lakehouse.checks.repeats import repeated_identities
from lakehouse.checks.rollup_checks import rollup_frame, unmeasured
from lakehouse.checks.stream_rules import rejections, rule_frames, value_verdicts
from lakehouse.checks.table_rows import TableRows
from lakehouse.checks.time_nodes import Keeping
from lakehouse.checks.time_rules import Judged, Timeline, time_verdicts
from lakehouse.config.stream import Stream
from lakehouse.engine import Engine
from lakehouse.ingest.quarantine import rejected_records
from lakehouse.spark.deviations import Frame
from lakehouse.spark.tables import exists
from lakehouse.storage.checked import COUNTS, Checked
from lakehouse.storage.corrections import RETENTION, TAKEN_OUT, Correction, read_corrections, removed
from lakehouse.storage.layout import Home
from lakehouse.storage.tables.rollup_table import Marker, RollupSchema, read_rollup_schema
from lakehouse.storage.tables.table_log import bounds
from lakehouse.storage.tables.table_reads import pieces_of

GAINED, PLACED = ("received", "requeued"), ("accepted", "quarantined", "duplicates")


@dataclass(frozen=True)
class Tables:
    """A stream's tables up to batch ``through``; ``ledger`` has the rows of batches that ``checked`` does not sum up.

    ``rollup``: the version of the rollup that holds no batch which the ledger lacks, None where there is none; it was
    built for ``schema`` and holds what ``marker`` says.
    """

    stream: Stream
    ledger: Sequence[Row]
    raw: TableRows
    quarantine: TableRows
    checked: Checked
    corrections: Sequence[Correction] = ()
    rollup: TableRows | None = None
    schema: RollupSchema | None = None
    marker: Marker | None = None
    # Ledger rows that an earlier check has passed, of batches that the rollup lacked then.
    passed: Sequence[Row] = field(default=())
    # Open records in quarantine; None if nothing was requeued, as all of them are open.
    open: int | None = None

    @property
    def since(self) -> int:
        """The last batch that an earlier check passed; later ones are new."""
        return self.checked.through

    @property
    def through(self) -> int:
        """The newest batch in the ledger."""
        return int(self.ledger[-1]["batch"]) if self.ledger else self.since

    @property
    def horizons(self) -> Sequence[int]:
        """From where on the levels of the rollup keep their nodes; none where nothing was rolled up yet."""
        return self.schema.horizons(self.marker.newest_us) if self.schema and self.marker else ()

    @property
    def totals(self) -> dict[str, int]:
        """The sums of the ledger over all batches."""
        own = {name: sum(row[name] or 0 for row in self.ledger) for name in COUNTS}
        return {name: self.checked.totals.get(name, 0) + own[name] for name in COUNTS}

    def accepted(self, through: int) -> int:
        """Return the rows accepted up to and including a batch, less those retracted since."""
        later = (row for row in (*self.passed, *self.ledger) if row["batch"] > through)
        taken_in = self.totals["accepted"] - sum(row["accepted"] or 0 for row in later)
        return taken_in - removed(self.corrections, TAKEN_OUT, through)

    def kept(self) -> dict[int, tuple[int, int]]:
        """Return per new batch how many raw rows there are, least and most: a removal that goes on may be either."""
        gone, going = self.removed()
        most = {row["batch"]: (row["accepted"] or 0) - gone[row["batch"]] for row in self.ledger}
        return {batch: (rows - going[batch], rows) for batch, rows in most.items()}

    def removed(self) -> tuple[Counter[int], Counter[int]]:
        """Return how many rows of each batch corrections have taken out of raw, and those that go on may have."""
        gone, going = Counter[int](), Counter[int]()
        for found in self.corrections:
            (gone if found.done else going).update(found.batches)
        return gone, going


def open_tables(home: Home, stream: Stream, checked: Checked) -> Tables | None:
    """Return the stream's tables, None where nothing was ever ingested."""
    if not exists(home.ledger(stream.name)):
        return None
    if (bounds(home.ledger(stream.name), ("batch",))[0][1] or -1) < checked.through:
        # An older ledger was put back.
        checked = Checked()
    # Batches may come while it checks: what was built when the ledger was read is built of batches that are in it.
    path = home.rollup(stream.name)
    rollup = TableRows.of(path) if exists(path) else None
    marker = _marker_of(rollup) if rollup else None
    built = marker.batch if marker else checked.through
    rows = _ledger_rows(TableRows.of(home.ledger(stream.name)), min(checked.through, built))
    ledger = [row for row in rows if row["batch"] > checked.through]
    if not ledger and checked.through < 0:
        return None
    passed = [row for row in rows if row["batch"] <= checked.through]
    corrections = read_corrections(home, stream.name)
    raw, quarantine = (TableRows.of(path(stream.name)) for path in (home.raw, home.quarantine))
    schema = read_rollup_schema(path) if rollup else None
    found = Tables(stream, ledger, raw, quarantine, checked, corrections, rollup, schema, marker, passed)
    if not found.totals["requeued"]:
        return found
    rejected = rejected_records(home, stream.name, found.through)
    return replace(found, open=sum(records.open for records in rejected.values()))


def _ledger_rows(ledger: TableRows, after: int) -> list[Row]:
    """Return the ledger by batch, of batches after one: its counts, and what is wrong in itself."""
    found: dict[int, Row] = {}
    columns = pa.schema([ledger.schema.field(name) for name in ("batch", *COUNTS, "reasons")])
    files = ledger.between("batch", after + 1, 2**62).paths
    pieces = (rows for path in files for rows in pieces_of(path, columns))
    for row in (row for rows in pieces for row in rows.to_pylist() if row["batch"] > after):
        balance = sum(row[name] or 0 for name in GAINED) - sum(row[name] or 0 for name in PLACED)
        reasons = sum(count for _, count in row["reasons"] or ())
        own = found.setdefault(
            row["batch"], Row(batch=row["batch"], repeats=-1) | dict.fromkeys(_OF_LEDGER, 0)
        )
        own["repeats"] += 1
        own["imbalance"] += abs(balance)
        own["negative_counts"] += int(any(row[name] is None or row[name] < 0 for name in COUNTS))
        own["reasons_gap"] += abs(reasons - (row["quarantined"] or 0))
        own.setdefault("reasons", Counter()).update(dict(row["reasons"] or ()))
        for name in COUNTS:
            own[name] += row[name] or 0
    return [found[batch] for batch in sorted(found)]


_OF_LEDGER = ("imbalance", "negative_counts", "reasons_gap", *COUNTS)


def _marker_of(rollup: TableRows) -> Marker:
    """Return the marker of this version of a rollup."""
    columns = pa.schema([rollup.schema.field(name) for name in ("level", "start_us", "batch")])
    marks = [
        row
        for path in rollup.between("level", 0, 0).paths
        for rows in pieces_of(path, columns)
        for row in rows.filter(pc.equal(rows["level"], 0)).to_pylist()
    ]
    newest = max((row["start_us"] for row in marks if row["start_us"] is not None), default=None)
    return Marker(newest, max((row["batch"] for row in marks), default=0))


def measure(
    tables: Tables, engine: Engine, timeline: Timeline | None = None, keeping: Keeping | None = None
) -> tuple[list[Frame], Measured]:
    """Return the frames of a stream's tables, and what each file of its rollup measures.

    They are of totals, of ledger, quarantine, raw and rollup where these have rows to judge, and of the stream's rules:
    those over time by the ``timeline``, and by what those about keys are ``keeping``.
    """
    figures = _figures(tables, engine, timeline)
    quarantine = {row["batch"]: row for row in _by_batch(figures[QUARANTINE])}
    raw = _by_batch(figures[RAW])
    is_new = tables.since < tables.through
    frames = [
        Frame("ledger", ("batch",), [_ledger_row(row, quarantine) for row in tables.ledger]),
        Frame("totals", (), [_totals_row(tables, figures)]),
        Frame("quarantine", ("batch",), [_quarantine_row(tables, row) for row in quarantine.values()]),
        Frame("raw", ("batch",), list(_raw_rows(tables, raw, figures[RAW], engine)) if is_new else []),
    ]
    measured: Measured = {}
    if tables.rollup:
        known = {path: tables.checked.files.get(path, ()) for path in tables.rollup.names}
        measured = {**known, **figures[ROLLUP]}
    verdicts = value_verdicts(tables.stream, raw, figures[RAW]) if is_new else {}
    if timeline:
        verdicts |= time_verdicts(Judged(timeline, tables.rollup, tables.horizons, measured, engine, keeping))
    frames += rule_frames(tables.stream, verdicts)
    frames += rejections(tables.stream, tables.ledger) if is_new else ()
    if tables.marker and tables.marker.newest_us is not None:
        accepted = tables.accepted(tables.marker.batch)
        frames.append(rollup_frame(tables.stream, tables.horizons, measured, accepted))
    return [frame for frame in frames if frame.rows], measured


def _figures(tables: Tables, engine: Engine, timeline: Timeline | None) -> Figures:
    """Return the figures of files that have new rows, and of those of the rollup that no check has measured."""
    new = ("batch", tables.since + 1, tables.through)
    of = {RAW: tables.raw.between(*new), QUARANTINE: tables.quarantine.between(*new)}
    if tables.rollup:
        names = unmeasured(tables.rollup.names, tables.checked.files, tables.horizons)
        of[ROLLUP] = tables.rollup.named(names)
    counted = timeline.counted if timeline else ()
    measuring = Measuring(tables.stream, tables.since, tables.through, tables.horizons, counted)
    return file_figures(engine, measuring, of, f"check the tables of {tables.stream.name}")


def _by_batch(figures: Mapping[str, Row]) -> list[Row]:
    """Return the figures of files by batch, in order."""
    parts = [pa.Table.from_pylist(of["rows"]) for of in figures.values() if of["rows"]]
    rows: list[Row] = added(parts, ["batch"]).to_pylist() if parts else []
    return sorted(rows, key=lambda row: int(row["batch"]))


def _ledger_row(row: Row, quarantine: Mapping[int, Row]) -> Row:
    held = quarantine.get(row["batch"], {}).get("held", 0)
    found = {name: row[name] for name in ("batch", "imbalance", "repeats", "negative_counts", "reasons_gap")}
    return found | {"quarantine_gap": abs(held - (row["quarantined"] or 0))}


def _totals_row(tables: Tables, figures: Figures) -> Row:
    total = tables.totals
    held, found = (
        rows.count_through(tables.through, {path: of["held"] for path, of in figures[name].items()})
        for name, rows in ((QUARANTINE, tables.quarantine), (RAW, tables.raw))
    )
    gone, going = (sum(rows.values()) for rows in tables.removed())
    placed = total["accepted"] + total["quarantined"] + total["duplicates"]
    # Records put through again stay in quarantine; what became of them is in the batch that took them. One of them may
    # have become several rows: then the ledger's sums do not say how many are open.
    still_rejected = total["quarantined"] - total["requeued"] if tables.open is None else tables.open
    return {
        "imbalance": abs(total["received"] + total["requeued"] - placed),
        "raw_gap": _outside(found, total["accepted"] - gone - going, total["accepted"] - gone),
        "quarantine_gap": abs(held - total["quarantined"]),
        "unfinished_corrections": sum(
            not found.done and found.kind != RETENTION for found in tables.corrections
        ),
        "rejected_share": still_rejected / max(1, total["received"]),
    }


def _quarantine_row(tables: Tables, row: Row) -> Row:
    is_known = any(entry["batch"] == row["batch"] for entry in tables.ledger)
    found = {name: row[name] for name in ("batch", "without_reason", "without_origin")}
    return found | {"unknown_batches": 0 if is_known else row["held"]}


def _raw_rows(
    tables: Tables, raw: Sequence[Row], figures: Mapping[str, Row], engine: Engine
) -> Iterator[Row]:
    found = {row["batch"]: row for row in raw}
    ends = [time for of in figures.values() for time in (of["low"], of["high"]) if time is not None]
    batches = tables.since, tables.through
    repeated = (
        repeated_identities(tables.stream, tables.raw, batches, (min(ends), max(ends)), engine)
        if ends
        else {}
    )
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
