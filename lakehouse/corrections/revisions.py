"""Revisions carried out: rows that newer ones of their identity have revised leave raw, and nodes and results with it.

    a batch         keeps its revised rows in the table `revised/<stream>`, before the ledger row that finishes it
    a correction    of all batches that wait for one: places noted, rows out of raw, their whole top nodes built again

Until it is carried out, raw has older and newer rows, no query reads such a batch, and later batches still know which
row of an identity is the newest. The ledger stays as it is: at the time of each row that goes there is another one.
Cost: figures and places of the revised rows, the files of raw that have them, and the rows of their top nodes.
"""

import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np

from lakehouse.algorithms.late_join.ranges import covering_ranges
from lakehouse.config.stream import Stream
from lakehouse.corrections.rebuild import rebuild_ranges
from lakehouse.corrections.wrong_rows import NotedInRaw, RevisedRows, count_wrong, note_wrong
from lakehouse.engine import Session, engine_of
from lakehouse.engine.rewriting import remove_rows
from lakehouse.spark.noted_rows import NotedRows
from lakehouse.storage.corrections import MOST_RANGES, REVISE, Correction
from lakehouse.storage.crashpoint import crash_point
from lakehouse.storage.layout import Home
from lakehouse.storage.tables.rollup_table import read_marker
from lakehouse.storage.tables.table_log import FileFacts


def revision_of(spark: Session, layout: Home, stream: Stream, batches: tuple[int, int]) -> Correction:
    """Return the correction that carries out the revisions of some batches, the first and the last of them."""
    width_us = stream.levels[-1].width_us
    table, step = layout.revised(stream.name), f"count revised rows of {stream.name}"
    found = count_wrong(engine_of(spark), table, RevisedRows(*batches), step, width_us)
    rows = Counter[int]()
    for each in found:
        rows[each["batch"]] += each["rows"]
    # Rows that no node has yet are in none: these follow from what raw has by then.
    contained = read_marker(layout.rollup(stream.name)).batch
    of_nodes = [each["span"] for each in found if each["batch"] <= contained]
    condition = {
        "batches": batches,
        "raw": _ranges([each["span"] for each in found], width_us),
    }
    ends = min(each["low_us"] for each in found), max(each["high_us"] for each in found) + 1
    what = "rows that batches {} to {} revise".format(*batches)
    return Correction(
        *(0, REVISE, False, "ingest", f"revisions of {stream.name}", what, json.dumps(condition), *ends),
        *(batches[1], rows.total(), dict(rows), datetime.now(UTC)),
        nodes=_ranges(of_nodes, width_us),
    )


def _ranges(spans: Sequence[int], width_us: int) -> list[tuple[int, int]]:
    """Return half-open ranges of time around spans of a width, in order."""
    starts = np.array(spans, np.int64) * width_us
    return covering_ranges(starts, starts + width_us, MOST_RANGES)


def carry_out_revision(spark: Session, layout: Home, stream: Stream, begun: Correction) -> None:
    """Take the rows of a revision out of raw, and build their nodes again, whatever of it was already done."""
    engine, name, condition = engine_of(spark), stream.name, json.loads(begun.condition)
    note_wrong(engine, layout, name, begun.number, RevisedRows(*condition["batches"]))
    crash_point("correction.rows-noted")

    def may_have(file: FileFacts) -> bool:
        return any(file.may_hold(("event_us", low, high - 1)) for low, high in condition["raw"])

    gone = NotedInRaw(NotedRows.of(layout, name, begun.number))
    remove_rows(engine, layout, layout.raw(name), gone, None, f"remove rows of {name}", may_have=may_have)
    crash_point("correction.raw-deleted")
    if begun.nodes:
        rebuild_ranges(spark, layout, stream, begun.nodes)
