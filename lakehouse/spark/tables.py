"""Delta tables by path: create, read, append exactly once, and a lease that keeps writers one at a time."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession

from lakehouse.catalog.stream import Stream
from lakehouse.spark.sources.rows import sql_type
from sql import statement


class LeaseHeld(RuntimeError):
    """Another process writes this table now."""


@contextmanager
def lease(table: Path) -> Iterator[None]:
    """Hold a table for one writer; the lock goes with the process, however it ends.

    Raises:
        LeaseHeld: at once, when another process holds it.
    """
    table.parent.mkdir(parents=True, exist_ok=True)
    path = table.parent / f".{table.name}.lease"
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = (
                f"{table}: another process writes this table now; wait for it, or stop it (lease {path})"
            )
            raise LeaseHeld(message) from None
        yield


def exists(table: Path) -> bool:
    """Whether a Delta table has been created here."""
    return any((table / "_delta_log").glob("*.json"))


def read(spark: SparkSession, table: Path) -> DataFrame:
    """Return the table's current version."""
    return spark.read.format("delta").load(str(table))


def append_once(rows: DataFrame, table: Path, writer: str, version: int) -> list[Path] | None:
    """Append rows unless this writer already appended this version or a later one.

    ``writer`` names a job and stream; versions are batch numbers, which only grow. A replay appends nothing. Returns
    the files written, None for a replay; the caller holds the table's lease.
    """
    before = _last_commit(table)
    rows.write.format("delta").mode("append").options(**once(writer, version), mergeSchema="true").save(
        str(table)
    )
    after = _last_commit(table)
    return None if after == before else _files_of(table, after)


def side_by_side(*steps: Callable[[], object]) -> None:
    """Run steps at the same time: each is mostly Delta waiting for its own log."""
    with ThreadPoolExecutor(len(steps)) as pool:
        for done in [pool.submit(step) for step in steps]:
            done.result()


def once(writer: str, version: int) -> dict[str, str]:
    """Return the options that make a Delta write of this version happen once."""
    return {"txnAppId": f"tidemark-{writer}", "txnVersion": str(version)}


def create_raw(spark: SparkSession, table: Path, stream: Stream) -> None:
    """Create a stream's raw table when there is none."""
    columns = "".join(f"`{name}` {sql_type(column)},\n    " for name, column in stream.all_columns.items())
    _create(spark, table, "tables/raw", columns=columns)


def create_quarantine(spark: SparkSession, table: Path) -> None:
    """Create a stream's quarantine when there is none."""
    _create(spark, table, "tables/quarantine")


def create_ledger(spark: SparkSession, table: Path) -> None:
    """Create a stream's ledger when there is none."""
    _create(spark, table, "tables/ledger")


def create_rollup(spark: SparkSession, table: Path, stream: Stream) -> None:
    """Create a stream's rollup table when there is none."""
    keys = "".join(f"`{key}` {sql_type(stream.all_columns[key])},\n    " for key in stream.grouping_keys)
    measures = "".join(
        f",\n    {column}" for name in stream.measures for column in measure_columns(stream, name)
    )
    _create(spark, table, "tables/rollup", keys=keys, measures=measures, definition=stream.definition())


def measure_columns(stream: Stream, measure: str) -> list[str]:
    """Return the columns of one measure in a rollup table, with their types."""
    value = sql_type(stream.all_columns[measure])
    total = value if value == "double" else f"decimal(38,{stream.all_columns[measure].scale})"
    types = {
        "n": "bigint",
        "sum": total,
        "min": value,
        "max": value,
        "first_us": "bigint",
        "last_us": "bigint",
    }
    return [f"{measure}__{part} {kind}" for part, kind in types.items()]


def properties(spark: SparkSession, table: Path) -> dict[str, str]:
    """Return the table's own properties."""
    return dict(map(tuple, spark.sql(f"SHOW TBLPROPERTIES delta.`{table}`").collect()))


def _create(spark: SparkSession, table: Path, name: str, **parts: str) -> None:
    if exists(table):
        return
    text = statement(name)
    for key, value in {"path": str(table), **parts}.items():
        text = text.replace("{" + key + "}", value)
    spark.sql(text)


def _last_commit(table: Path) -> int:
    return max(int(path.stem) for path in (table / "_delta_log").glob("*.json") if path.stem.isdigit())


def _files_of(table: Path, commit: int) -> list[Path]:
    actions = (table / "_delta_log" / f"{commit:020}.json").read_text().splitlines()
    added = [json.loads(action)["add"]["path"] for action in actions if action.startswith('{"add"')]
    return [table / unquote(path) for path in added]
