"""Identities of one ingest batch in tasks: rows meet by the hash of their identity, those that repeat one are left out.

    tasks by files      rows go into parts of raw; their hashes, and which row of the item each is, go to buckets
    tasks by bucket     hashes that stand twice, or in the index of earlier batches -> suspects
                        suspects, read from the parts, and accepted rows of raw -> compared by value -> verdicts
    tasks by files      the parts of an item with repeats are written again without them; conflicts go to quarantine

A bucket is a range of hashes, so that the sorted hashes of all buckets make a run of the index. Verdicts and hashes are
files beside the parts; the driver deletes them. Conflicts go to quarantine with the bytes of their line, which is read
again: if it no longer gives the row, the batch fails, and is read once more as a whole. Those of topics are kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse.algorithms.ingest.duplicates import CONFLICT, DUPLICATE
from lakehouse.config.stream import Stream
from lakehouse.ingest import batch_parts
from lakehouse.ingest.aside import write_aside
from lakehouse.ingest.identities.duplicates import Accepted, conflict_detail, repeats_of
from lakehouse.ingest.identities.identities import compared, hashes_of
from lakehouse.ingest.identities.revisions import REVISED
from lakehouse.ingest.part_counts import RecordCounts, rejected_by_day
from lakehouse.ingest.sources.landed_content import SourceChanged
from lakehouse.storage.identity_copies import fetched
from lakehouse.storage.identity_index import Batches, Hashes, Run, find_in
from lakehouse.storage.tables.table_files import source
from lakehouse.storage.tables.tables_place import place_at

HASHES, REPEATS, REPEATED = "hashes", "repeats", "repeated"
BUCKET = "bucket"
# ``row``: which of its item's rows it is. In the first bucket every item has its outputs, too, as JSON; in others what
# it takes to read its rows.
HASHED = pa.schema(
    [
        (BUCKET, pa.int32()),
        *((name, pa.int32()) for name in ("item", "row")),
        *((name, pa.int64()) for name in ("hash", "event_us")),
        ("output", pa.string()),
    ]
)
_REPEATS = pa.schema([("item", pa.int64()), ("row", pa.int64()), ("verdict", pa.int8())])
_OF_PART = ("item", "kind", "number", "path")
_IN_ORDER = [("item", "ascending"), ("row", "ascending")]
# Lines of so many bytes make some 250,000 rows, of which a bucket takes 30 bytes each, and 200 of suspects.
_BUCKET_BYTES = 32 * 1024 * 1024
_MOST_BUCKETS = 256
# More than a line has.
_ITEMS = 2**31


@dataclass(frozen=True)
class Comparing:
    """Inputs of tasks that compare a batch's rows: ``runs`` of the index, and tables of accepted rows."""

    reading: batch_parts.Reading
    runs: tuple[Run, ...]
    accepted: Accepted
    buckets: int

    @staticmethod
    def of(reading: batch_parts.Reading, runs: Sequence[Run], accepted: Accepted) -> Comparing:
        """Return it, with as many buckets as the batch's bytes need."""
        buckets = min(_MOST_BUCKETS, 1 + reading.records.bytes // _BUCKET_BYTES)
        return Comparing(reading, tuple(runs), accepted, buckets)

    @property
    def local_runs(self) -> Sequence[Run]:
        """The runs of the index as files of this machine."""
        return fetched(self.runs)

    def bucket_of(self, hashes: Hashes) -> npt.NDArray[np.int32]:
        """Return which range each hash is in."""
        return np.asarray(((hashes >> np.uint64(32)) * np.uint64(self.buckets)) >> np.uint64(32), np.int32)


def hashed_item(item: dict[str, Any], *, comparing: Comparing) -> Iterator[pa.Table]:
    """Write an item's rows and rejected records as ``read_item`` does; yield hashes, and its outputs to each bucket."""
    task, count = batch_parts.ItemTask(comparing.reading), 0
    for rows in task.pieces(item):
        hashes, has_one = hashes_of(rows, comparing.reading.stream)
        at = np.flatnonzero(has_one)
        columns = {
            BUCKET: comparing.bucket_of(hashes[at]),
            "item": np.full(len(at), item["item"]),
            "row": at + count,
            "hash": hashes[at].view(np.int64),
            "event_us": rows["event_us"].to_numpy()[at],
        }
        yield _hashed(columns)
        count += rows.num_rows
    own = [{"item": item["item"], **row} for row in task.close()]
    parts = [{name: row[name] for name in _OF_PART} for row in own if row["kind"] == batch_parts.RAW]
    for bucket in range(comparing.buckets):
        texts = [json.dumps(row) for row in (parts if bucket else own)]
        yield _hashed({BUCKET: np.full(len(texts), bucket), "output": texts})


def _hashed(columns: dict[str, Any]) -> pa.Table:
    count = len(columns[BUCKET])
    arrays = [
        pa.array(columns[field.name], field.type) if field.name in columns else pa.nulls(count, field.type)
        for field in HASHED
    ]
    return pa.table(arrays, schema=HASHED)


def judged_bucket(bucket: int, rows: pa.Table, *, comparing: Comparing) -> pa.Table:
    """Return the outputs of the items, once, and those of a bucket: its hashes, and the rows that repeat another."""
    is_output = rows["output"].is_valid()
    items = [json.loads(text) for text in rows["output"].filter(is_output).to_pylist()]
    hashed = rows.filter(pc.invert(is_output))
    schema = comparing.reading.records.parser.schema
    parts = _Parts([each for each in items if each["kind"] == batch_parts.RAW], schema)
    own = _Bucket(comparing, hashed, parts).outputs(bucket) if hashed.num_rows else []
    return pa.Table.from_pylist([*(items if bucket == 0 else []), *own], batch_parts.OUTPUTS)


@dataclass(frozen=True)
class _Bucket:
    """The hashes of one range, in any order, and the parts that have the rows."""

    comparing: Comparing
    hashed: pa.Table
    parts: _Parts

    def outputs(self, bucket: int) -> list[batch_parts.Output]:
        hashes = self.hashed["hash"].to_numpy().view(np.uint64)
        ends = pc.min_max(self.hashed["event_us"]).as_py()
        unique, counts = np.unique(hashes, return_counts=True)
        apart = self.comparing.reading.stream.repeat_distance_us
        known, batches = find_in(self.comparing.local_runs, unique, ends["min"] - apart, ends["max"] + apart)
        of_hashes = _aside(self.comparing, pa.table({"hash": pa.array(unique)}))
        own = [{"kind": HASHES, "number": bucket, "rows": len(unique), "text": json.dumps(ends), **of_hashes}]
        judged = self._judged(hashes, np.union1d(unique[counts > 1], known), (known, batches))
        if judged is None:
            return own
        own += self._revised(judged)
        repeats = (
            judged.filter(pc.is_in(judged["verdict"], pa.array(_NAMES))).select(_REPEATS.names).cast(_REPEATS)
        )
        if not repeats.num_rows:
            return own
        counted = repeats.group_by(["item", "verdict"]).aggregate([([], "count_all")]).to_pylist()
        more = [
            {
                "item": each["item"],
                "kind": REPEATED,
                "text": _NAMES[each["verdict"]],
                "rows": each["count_all"],
            }
            for each in counted
        ]
        of_repeats = _aside(self.comparing, repeats.sort_by(_IN_ORDER))
        return [*own, {"kind": REPEATS, "number": bucket, **of_repeats}, *more]

    def _judged(self, hashes: Hashes, suspects: Hashes, known: tuple[Hashes, Batches]) -> pa.Table | None:
        comparing, hashed = self.comparing, self.hashed.select(["item", "row"])

        def rows_of(wanted: Hashes) -> pa.Table:
            own = hashed.filter(pa.array(np.isin(hashes, wanted)))
            return self.parts.rows_at(own.sort_by(_IN_ORDER), comparing.reading.stream)

        return repeats_of(comparing.reading.batch, comparing.accepted, suspects, known, rows_of)

    def _revised(self, judged: pa.Table) -> list[batch_parts.Output]:
        """Write the rows that newer ones revise, which raw has until the batch is finished."""
        reading = self.comparing.reading
        rows = judged.filter(pc.equal(judged["verdict"], REVISED))
        if reading.revised is None or not rows.num_rows:
            return []
        numbers = {"batch": pc.fill_null(rows["batch"], reading.batch)}
        numbers["revised_in"] = pa.repeat(pa.scalar(reading.batch, pa.int64()), rows.num_rows)
        for name, values in numbers.items():
            rows = rows.drop_columns(name) if name in rows.column_names else rows
            rows = rows.append_column(name, values)
        return batch_parts.written(batch_parts.REVISED, reading.revised.write(rows).to_pylist())


def _aside(comparing: Comparing, rows: pa.Table) -> batch_parts.Output:
    """Write rows to a file beside the parts."""
    return {"path": write_aside(comparing.reading.raw.table, rows)}


_NAMES = {DUPLICATE: "duplicate", CONFLICT: "conflict"}


@dataclass(frozen=True)
class _Parts:
    """The parts of raw that items wrote, by item and number, and the columns of rows."""

    entries: list[batch_parts.Output]
    schema: pa.Schema

    def of(self, item: int) -> list[batch_parts.Output]:
        """Return an item's parts in order."""
        own = (each for each in self.entries if each["item"] == item)
        return sorted(own, key=lambda each: int(each["number"]))

    def rows_at(self, wanted: pa.Table, stream: Stream) -> pa.Table:
        """Return what is compared of some rows, in order of items and rows, with their ``item`` and ``row``."""
        names = compared(stream)
        pieces = [self.schema.empty_table().select(names)]
        numbers = wanted["item"].to_numpy()
        for item in np.unique(numbers).tolist():
            rows = wanted["row"].to_numpy()[numbers == item]
            pieces += (
                piece.select(names).cast(pieces[0].schema) for piece in _rows_at(self.of(item), rows, names)
            )
        whole = pa.concat_tables(pieces)
        for name in ("item", "row"):
            whole = whole.append_column(name, wanted[name])
        return whole


def _rows_at(
    parts: list[batch_parts.Output], rows: npt.NDArray[np.int64], names: list[str]
) -> Iterator[pa.Table]:
    """Yield some rows of an item, by their numbers, which ascend, from its parts."""
    first = 0
    for entry in parts:
        with pq.ParquetFile(source(place_at(entry["path"]))) as file:
            for group in range(file.num_row_groups):
                count = file.metadata.row_group(group).num_rows
                low, high = np.searchsorted(rows, (first, first + count))
                if low < high:
                    piece = file.read_row_group(group, columns=names)
                    yield piece.take(pa.array(rows[low:high] - first))
                first += count


def without_repeats(item: dict[str, Any], *, reading: batch_parts.Reading) -> Iterator[pa.Table]:
    """Write the rows of an item's parts of raw again but for those in files of ``repeats``; yield outputs."""
    # The files of all buckets are in order of items.
    of_item = pc.field("item") == item["item"]
    files = (source(place_at(path)) for path in item[REPEATS])
    repeats = pa.concat_tables([pq.read_table(file, filters=of_item) for file in files])
    verdicts = np.zeros(sum(each["rows"] for each in item[batch_parts.RAW]), np.int8)
    verdicts[repeats["row"].to_numpy()] = repeats["verdict"].to_numpy()
    accepted, conflicts, first = batch_parts.AcceptedRows(reading), [], 0
    for entry in item[batch_parts.RAW]:
        with pq.ParquetFile(source(place_at(entry["path"]))) as file:
            for group in range(file.num_row_groups):
                rows = file.read_row_group(group).drop_columns("batch")
                own = verdicts[first : first + rows.num_rows]
                kept = rows.filter(pa.array(own == 0))
                accepted.add(kept)
                at = np.flatnonzero(own == CONFLICT)
                conflicts.append(rows.take(pa.array(at)).append_column("row", pa.array(at + first)))
                first += rows.num_rows
    quarantine = batch_parts.PartWriter(reading.quarantine, reading.batch)
    lost = pa.concat_tables(conflicts)
    for rejected in _conflicts(lost, item, reading):
        quarantine.add(rejected)
    days = rejected_by_day(
        lost.select(["event_us"]).append_column("reason", pa.repeat("conflict", lost.num_rows))
    )
    yield batch_parts.outputs(
        item["item"],
        [
            *accepted.close(),
            *batch_parts.written(batch_parts.QUARANTINE, quarantine.close()),
            {"kind": batch_parts.RECORDS, "text": RecordCounts(days=days).as_text()},
        ],
    )


def _conflicts(rows: pa.Table, item: batch_parts.Output, reading: batch_parts.Reading) -> Iterator[pa.Table]:
    """Yield the records of rows that are conflicts, file by file.

    Raises SourceChanged where the file is another one by now.
    """
    if item[batch_parts.KEPT]:
        kept = _rows_at(item[batch_parts.KEPT], rows["row"].to_numpy(), batch_parts.REJECTED)
        yield from (_as_conflicts(each, reading.stream) for each in kept)
        return
    for path in pc.unique(rows["source_file"]).to_pylist():
        own = rows.filter(pc.equal(rows["source_file"], path))
        again = reading.records.again(item, path, pc.unique(own["source_line"]))
        reread = pa.concat_tables([reading.records.parser.schema.empty_table(), *again])
        at = pc.index_in(_places(own), _places(reread).combine_chunks())
        if at.null_count:
            raise SourceChanged(
                f"{path} is not what it was when its rows were compared with accepted ones; the batch is read again"
            )
        yield _as_conflicts(reread.take(at), reading.stream)


def _as_conflicts(rows: pa.Table, stream: Stream) -> pa.Table:
    """Return records as quarantine has conflicts."""
    verdict = {"reason": "conflict", "detail": conflict_detail(stream)}
    for name, text in verdict.items():
        rows = rows.drop_columns(name).append_column(name, pa.repeat(text, rows.num_rows))
    return rows.select(batch_parts.REJECTED)


def _places(rows: pa.Table) -> pa.ChunkedArray:
    """Return where in their file rows are, as one number each."""
    return pc.add(pc.multiply(rows["source_line"], _ITEMS), rows["source_item"].cast(pa.int64()))
