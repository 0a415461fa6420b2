"""The answer of a task for one bucket: rows of one table, whose ``kind`` says what they are. No JVM.

    log        part: missed or refused; side, row, event_us, horizon_us ...
    state      part, content, leave_us
    metrics    f_<name> ...

Kinds of query add rows of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

LOG, STATE, METRICS = "log", "state", "metrics"
Columns = Mapping[str, "pa.Array | pa.ChunkedArray"]


def of_kind(kind: str, columns: Columns, rows: int) -> pa.Table:
    """Return the rows of an answer that have this kind."""
    return pa.table({"kind": pa.repeat(kind, rows), **columns})


def log_rows(log: Any, refused: pa.Table, row: Any, times: Iterable[str]) -> pa.Table:
    """Return the rows that may have missed partners, then the refused rows; ``times``: the times of ``log``."""
    nothing = pa.nulls(refused.num_rows, pa.int64())
    columns = {
        "part": pa.array(["missed"] * len(log) + ["refused"] * refused.num_rows, pa.string()),
        "side": pa.array(np.concatenate([log.side, refused["side"].to_numpy()]).astype(np.int32)),
        "row": row,
        "event_us": pa.array(np.concatenate([log.event_us, refused["event_us"].to_numpy()])),
        **{name: pa.chunked_array([pa.array(getattr(log, name)), nothing]) for name in times},
    }
    return of_kind(LOG, columns, len(row))


def metrics_row(metrics: Mapping[str, int | None]) -> pa.Table:
    """Return the metrics of a bucket as a row."""
    return of_kind(
        METRICS, {f"f_{name}": pa.array([value], pa.int64()) for name, value in metrics.items()}, 1
    )


def filled(part: pa.Table, rows: int, schema: pa.Schema) -> pa.Table:
    """Return a part of an answer with all columns; columns without a value are null."""
    columns = [
        part[f.name].cast(f.type) if f.name in part.column_names else pa.nulls(rows, f.type) for f in schema
    ]
    return pa.table(columns, schema=schema)


def gathered(parts: Sequence[pa.Table], schema: pa.Schema, bucket: int) -> pa.Table:
    """Return the parts of a bucket's answer as one table."""
    numbered = (part.append_column("bucket", pa.repeat(bucket, part.num_rows)) for part in parts)
    return pa.concat_tables([filled(part, part.num_rows, schema) for part in numbered])


def unpacked(content: bytes) -> pa.Table:
    """Return a table from its bytes."""
    return pa.ipc.open_stream(content).read_all()
