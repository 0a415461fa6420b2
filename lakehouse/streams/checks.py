"""A stream's tables -> small frames of deviations: one row per batch (or one in all), 0 where all is well.

    new rows      of batches that no check has passed: each row of ledger, quarantine and raw is judged
    totals        of all batches: sums of the ledger that the last check kept, and the rows that the logs tell of
    everything    each day's first check, or one that is asked for, takes all rows for new

Frames are taken as of the newest batch in the ledger when the check began, so that an ingest that goes on
meanwhile is not mistaken for a mistake. Cost: with the new rows, and with the files of the tables; repeated identities
are looked for in all raw rows of their time where these are few, else among the new ones, and in all of them when
everything is checked. Guarantee: what leaves this module are batch numbers, counts and differences, never a key, a
reading or an identity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from lakehouse.home.checked import COUNTS, Checked
from lakehouse.home.corrections import RETENTION, RETRACT, Correction, read_corrections, removed
from lakehouse.home.rollup_table import read_marker
from lakehouse.home.table_log import bounds
from lakehouse.spark.deviations import Frame
from lakehouse.spark.tables import exists
from lakehouse.streams.quarantine import rejected_records
from lakehouse.streams.repeats import repeated_identities
from lakehouse.streams.table_rows import TableRows

if TYPE_CHECKING:
    from lakehouse.declare.stream import Stream
    from lakehouse.engine import Engine
    from lakehouse.home.layout import Home

GAINED, PLACED = ("received", "requeued"), ("accepted", "quarantined", "duplicates")
_RAW_CLAIMS = ("without_event_time", "out_of_bounds", "not_numbers", "without_origin")
Row = dict[str, Any]


@dataclass(frozen=True)
class Tables:
    """A stream's tables up to batch ``through``; ``ledger`` has the rows of batches that ``checked`` does not sum up.

    ``rollup``: the version of the rollup that holds no batch which the ledger lacks, None where there is none.
    """

    stream: Stream
    ledger: Sequence[Row]
    raw: TableRows
    quarantine: TableRows
    checked: Checked
    corrections: Sequence[Correction] = ()
    rollup: TableRows | None = None
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
    def totals(self) -> dict[str, int]:
        """The sums of the ledger over all batches."""
        own = {name: sum(row[name] or 0 for row in self.ledger) for name in COUNTS}
        return {name: self.checked.totals.get(name, 0) + own[name] for name in COUNTS}

    def accepted(self, through: int) -> int:
        """Return the rows accepted up to and including a batch, less those retracted since."""
        later = (row for row in (*self.passed, *self.ledger) if row["batch"] > through)
        taken_in = self.totals["accepted"] - sum(row["accepted"] or 0 for row in later)
        return taken_in - removed(self.corrections, [RETRACT], through)

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
    built = read_marker(path).batch if rollup else checked.through
    rows = _ledger_rows(TableRows.of(home.ledger(stream.name)), min(checked.through, built))
    ledger = [row for row in rows if row["batch"] > checked.through]
    if not ledger and checked.through < 0:
        return None
    passed = [row for row in rows if row["batch"] <= checked.through]
    corrections = read_corrections(home, stream.name)
    raw, quarantine = (TableRows.of(path(stream.name)) for path in (home.raw, home.quarantine))
    found = Tables(stream, ledger, raw, quarantine, checked, corrections, rollup, passed)
    if not found.totals["requeued"]:
        return found
    rejected = rejected_records(home, stream.name, found.through)
    return replace(found, open=sum(records.open for records in rejected.values()))


def _ledger_rows(ledger: TableRows, after: int) -> list[Row]:
    """Return the ledger by batch, of batches after one: its counts, and what is wrong in itself."""
    found: dict[int, Row] = {}
    dataset = ledger.batches(after, 2**62)
    rows = dataset.to_table(
        columns=["batch", *COUNTS, "reasons"], filter=ds.field("batch") > after
    ).to_pylist()
    for row in rows:
        balance = sum(row[name] or 0 for name in GAINED) - sum(row[name] or 0 for name in PLACED)
        reasons = sum(count for _, count in row["reasons"] or ())
        own = found.setdefault(
            row["batch"], Row(batch=row["batch"], repeats=-1) | dict.fromkeys(_OF_LEDGER, 0)
        )
        own["repeats"] += 1
        own["imbalance"] += abs(balance)
        own["negative_counts"] += int(any(row[name] is None or row[name] < 0 for name in COUNTS))
        own["reasons_gap"] += abs(reasons - (row["quarantined"] or 0))
        for name in COUNTS:
            own[name] += row[name] or 0
    return [found[batch] for batch in sorted(found)]


_OF_LEDGER = ("imbalance", "negative_counts", "reasons_gap", *COUNTS)


def measure(tables: Tables, engine: Engine) -> list[Frame]:
    """Return the frames of totals, and of ledger, quarantine and raw where they have new rows to judge."""
    quarantine = {row["batch"]: row for row in _quarantine(tables)}
    frames = [
        Frame("ledger", ("batch",), [_ledger_row(row, quarantine) for row in tables.ledger]),
        Frame("totals", (), [_totals_row(tables)]),
        Frame("quarantine", ("batch",), [_quarantine_row(tables, row) for row in quarantine.values()]),
        Frame("raw", ("batch",), list(_raw_rows(tables, engine)) if tables.since < tables.through else []),
    ]
    return [frame for frame in frames if frame.rows]


def _ledger_row(row: Row, quarantine: Mapping[int, Row]) -> Row:
    held = quarantine.get(row["batch"], {}).get("held", 0)
    found = {name: row[name] for name in ("batch", "imbalance", "repeats", "negative_counts", "reasons_gap")}
    return found | {"quarantine_gap": abs(held - (row["quarantined"] or 0))}


def _totals_row(tables: Tables) -> Row:
    total = tables.totals
    held, found = (rows.count_through(tables.through) for rows in (tables.quarantine, tables.raw))
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


def _new(tables: Tables) -> ds.Expression:
    return (ds.field("batch") > tables.since) & (ds.field("batch") <= tables.through)


def _quarantine(tables: Tables) -> list[Row]:
    dataset = tables.quarantine.batches(tables.since, tables.through)
    names = ["batch", "reason", "source_file"]
    counts = []
    for rows in dataset.to_batches(columns=names, filter=_new(tables)):
        claims = {
            "without_reason": pc.equal(pc.fill_null(rows["reason"], ""), ""),
            "without_origin": pc.is_null(rows["source_file"]),
        }
        counts.append(_counted(rows["batch"], {"held": pc.is_valid(rows["batch"]), **claims}))
    return _added(counts)


def _quarantine_row(tables: Tables, row: Row) -> Row:
    is_known = any(entry["batch"] == row["batch"] for entry in tables.ledger)
    found = {name: row[name] for name in ("batch", "without_reason", "without_origin")}
    return found | {"unknown_batches": 0 if is_known else row["held"]}


def _raw_rows(tables: Tables, engine: Engine) -> Iterator[Row]:
    found = {row["batch"]: row for row in _raw(tables)}
    repeated = repeated_identities(tables.stream, tables.raw, (tables.since, tables.through), engine)
    new = {row["batch"] for row in tables.ledger if row["batch"] > tables.since}
    kept = tables.kept()
    for batch in sorted(new | set(found)):
        row = found.get(batch, {})
        yield {
            "batch": batch,
            "gap_to_ledger": _outside(row.get("found", 0), *kept.get(batch, (0, 0))),
            **{name: row.get(name, 0) for name in _RAW_CLAIMS},
            "repeated_identities": repeated.get(batch, 0),
        }


def _outside(found: int, least: int, most: int) -> int:
    return max(least - found, found - most, 0)


def _raw(tables: Tables) -> list[Row]:
    low, high = tables.stream.event_time_bounds
    # Lines are counted from 1, offsets from 0.
    first_line = 0 if tables.stream.source.kind == "kafka" else 1
    doubles = [name for name in tables.stream.measures if tables.stream.all_columns[name].type == "double"]
    columns = ["batch", "event_us", "source_file", "source_line"]
    # A column that came later is not in raw before its first row.
    doubles = [name for name in doubles if name in tables.raw.schema.names]
    dataset, counts = tables.raw.batches(tables.since, tables.through), []
    for rows in dataset.to_batches(columns=list(dict.fromkeys([*columns, *doubles])), filter=_new(tables)):
        event = rows["event_us"]
        claims = {
            "found": pc.is_valid(rows["batch"]),
            "without_event_time": pc.is_null(event),
            "out_of_bounds": pc.or_(pc.less(event, low), pc.greater_equal(event, high)),
            "not_numbers": any_of(rows.num_rows, [is_not_a_number(rows[name]) for name in doubles]),
            "without_origin": any_of(
                rows.num_rows, [pc.is_null(rows["source_file"]), pc.less(rows["source_line"], first_line)]
            ),
        }
        counts.append(_counted(rows["batch"], claims))
    return _added(counts)


def is_not_a_number(values: pa.Array) -> pa.Array:
    """Return where doubles are NaN or infinite; null is neither."""
    return pc.fill_null(pc.invert(pc.is_finite(values)), False)


def any_of(rows: int, claims: Sequence[pa.Array]) -> pa.Array:
    """Return where at least one claim holds; an unknown one (null) does not."""
    result = pa.repeat(pa.scalar(False), rows)
    for claim in claims:
        result = pc.or_(result, pc.fill_null(claim, False))
    return result


def _counted(batch: pa.Array, claims: Mapping[str, pa.Array]) -> pa.Table:
    ones = {name: pc.fill_null(claim, False).cast(pa.int64()) for name, claim in claims.items()}
    return _summed(pa.table({"batch": batch, **ones}))


def _summed(counts: pa.Table) -> pa.Table:
    names = [name for name in counts.column_names if name != "batch"]
    found = counts.group_by("batch").aggregate([(name, "sum") for name in names])
    return found.select(["batch", *(f"{name}_sum" for name in names)]).rename_columns(["batch", *names])


def _added(counts: Sequence[pa.Table]) -> list[Row]:
    """Return counts by batch, in order, of those of parts of the rows."""
    if not counts:
        return []
    rows: list[Row] = _summed(pa.concat_tables(counts)).to_pylist()
    return sorted(rows, key=lambda row: (row["batch"] is not None, row["batch"]))
