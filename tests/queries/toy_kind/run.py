"""A batch of a sample: its rows, then the metrics that finish it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.engine import Item
from lakehouse.engine.parts import ENTRIES, sink_of
from lakehouse.queries.runtime.batch_manifest import BatchManifest
from lakehouse.queries.runtime.run import QueryRun
from lakehouse.queries.runtime.source import RowSource
from lakehouse.queries.runtime.tables import ROW_HASH, Written
from lakehouse.queries.runtime.tasks.reading import TaskRows, items_of
from lakehouse.spark.noted_rows import PLACE
from lakehouse.storage.crashpoint import crash_point
from lakehouse.storage.tables.table_commits import fitted
from tests.queries.toy_kind.query import SampleQuery

RESULT = pa.schema([*ENTRIES, ("read", pa.int64()), ("selected", pa.int64()), ("time_us", pa.int64())])


@dataclass(frozen=True)
class SampleRun(QueryRun[SampleQuery]):
    """A registered sample, and where it runs."""

    counts = ("rows", "selected")

    def finish(self, manifest: BatchManifest, source: RowSource) -> dict[str, int]:
        """Append the rows, then the metrics; return the totals."""
        query, table = self.query, self.layout.selection(self.query.name)
        shown = [f"`{output.column}` AS `{output.name}`" for output in query.outputs]
        raw = source.read(0, ("event_us", f"{ROW_HASH} AS row_id", *PLACE, *shown))
        items = items_of([(0, *each) for each in raw.files])
        names = {name: name for name in raw.rows.schema.names}
        written = Written(sink_of(table), names, {"batch": manifest.number})
        kernel = partial(sample, rows=raw.rows, written=written, one_in=query.one_in)
        found = self.engine.map(items, kernel, RESULT, f"sample of {query.name}")
        entries = found.filter(found["path"].is_valid()).select(ENTRIES.names)
        self.commit(entries, table, "online", manifest.number)
        crash_point("queries.outputs-appended")
        time_us = pc.max(found["time_us"]).as_py()
        rows, selected = (pc.sum(found[name]).as_py() or 0 for name in ("read", "selected"))
        totals = {"rows": rows, "selected": selected}
        self.append_metrics([{"operator": -1, **totals, "time_us": time_us}], manifest.number)
        return totals


def sample(item: Item, *, rows: TaskRows, written: Written, one_in: int) -> Iterator[pa.Table]:
    """Write one row in so many of some files; yield the entry, and counts."""
    whole = pa.Table.from_batches(rows.batches(item["paths"]), rows.schema)
    chosen = whole.filter(pa.array(np.mod(whole["row_id"].to_numpy(), one_in) == 0))
    yield fitted(written.sink.write(written.rows(chosen)), RESULT)
    counts = {"read": [len(whole)], "selected": [len(chosen)], "time_us": [pc.max(whole["event_us"]).as_py()]}
    yield fitted(pa.table(counts), RESULT)


run_of = SampleRun.of
