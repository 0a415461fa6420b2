"""Raw rows before a time: counted and deleted by this process, file by file; retention asks Spark for nothing.

Cost: two columns of the files that may have such a row; those that have other rows too are written anew without it.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from lakehouse.home.lease import files_of
from lakehouse.home.table_commits import DataFile, arrow_schema, commit, fitted, open_table, write_arrow
from lakehouse.home.table_files import source
from lakehouse.home.table_log import FileFacts, file_facts, read_parts
from lakehouse.spark import tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEAST_US = -(2**63)
# A file of more rows that goes in part is Spark's.
ROWS_AT_ONCE = 2_000_000


def count_before(raw: Path, end_us: int, through: int, earlier_us: int) -> tuple[dict[int, int], int]:
    """Return how many rows before a time each batch up to ``through`` has, and how many are before an earlier one."""
    batches, earlier = Counter[int](), 0
    for part in read_parts(raw, ("event_us", "batch"), ("event_us", LEAST_US, end_us - 1)):
        old = part.filter(pc.less_equal(part["batch"], through))
        earlier += pc.sum(pc.less(old["event_us"], earlier_us)).as_py() or 0
        for found in pc.value_counts(old["batch"]).to_pylist():
            batches[found["values"]] += found["counts"]
    return dict(batches), earlier


def remove_before(spark: SparkSession, raw: Path, end_us: int, through: int) -> None:
    """Delete the rows before a time of batches up to ``through``; a merge of the table's files is waited for.

    Files that go whole are not opened, the others are read one at a time.

    Raises:
        LeaseHeld: when the merge takes longer than ``tables.MERGE_S``.
    """
    with tables.lease(files_of(raw), tables.MERGE_S):
        files = [file for file in file_facts(raw, ("event_us", "batch")) if _may_go(file, end_us)]
        whole = [file.path for file in files if _goes_whole(file, end_us, through)]
        mixed = [file for file in files if file.path not in whole]
        is_here = all(file.rows <= ROWS_AT_ONCE for file in mixed)
        if is_here and files:
            _remove_here(raw, whole, mixed, end_us, through)
    if not is_here:
        tables.remove(spark, raw, f"event_us < {end_us} AND batch <= {through}")


def _may_go(file: FileFacts, end_us: int) -> bool:
    low, _ = file.bounds["event_us"]
    return low is None or low < end_us


def _goes_whole(file: FileFacts, end_us: int, through: int) -> bool:
    (_, newest_us), (_, last) = file.bounds["event_us"], file.bounds["batch"]
    return newest_us is not None and newest_us < end_us and last is not None and last <= through


def _remove_here(raw: Path, whole: list[Path], mixed: list[FileFacts], end_us: int, through: int) -> None:
    known, added, removed = open_table(raw), list[DataFile](), list(whole)
    columns = arrow_schema(known)
    for path in (file.path for file in mixed):
        rows = fitted(parquet.read_table(source(path), partitioning=None), columns)
        kept = rows.filter(pc.invert(_is_old(rows, end_us, through)))
        if len(kept) < len(rows):
            removed.append(path)
            added += write_arrow(known, raw, kept) if len(kept) else []
    if removed:
        commit(known, raw, added, [str(path.relative_to(raw)) for path in removed])


def _is_old(rows: pa.Table, end_us: int, through: int) -> pa.ChunkedArray:
    return pc.and_(pc.less(rows["event_us"], end_us), pc.less_equal(rows["batch"], through))
