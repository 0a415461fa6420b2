"""The executor beside Spark SQL with the same predicates: cheap ones as its own expressions, expensive ones as UDFs.

The same 20 queries over the same real rows. Spark has one core (``local[1]``), as the executor has, the rows cached in
its memory, and a pandas UDF for each expensive predicate, around the very function that the executor calls; counting
the rows of each query warms it up. It runs in three ways:

    each .............. the queries one after the other in the written order
    each, best order .. the same, the expensive predicates last, as somebody who knows their costs would write them
    one pass .......... one scan a stream; each predicate once a row; a column of verdicts a query

Results go to Spark's ``noop`` sink. Seconds of the clock on the wall, the least of the rounds; both sides find the same
number of rows for each query.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from lakehouse.settings import Settings
from tests.benchmarks import page
from tests.benchmarks.scheduling.executor import real_rows, timed_run
from tests.benchmarks.scheduling.predicates import POOLS, drawn, is_expensive, queries
from tests.benchmarks.scheduling.rows import absent
from tests.benchmarks.scheduling.run import POLICIES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Asked = list[tuple[str, list[str]]]
# What Spark says where the executor asks Arrow.
NATIVE = {
    "is_tcp": "proto = 'tcp'",
    "has_service": "service IS NOT NULL",
    "is_established": "state IN ('SF', 'S1')",
    "sent_much": "orig_bytes > 400",
    "got_much": "resp_bytes > 4000",
    "is_long": "duration > 5",
    "to_web": "dest_port = 80",
    "is_hot": "value > 40",
    "is_very_hot": "value > 300",
    "is_burning": "seconds > 0",
    "is_late": "seconds > 600",
    "is_temperature": "contains(channel, 'Temperature')",
}


def figures(quick: bool) -> dict[str, Any]:
    """Return how many times faster than the fastest of Spark's ways the executor is, and all seconds."""
    if missing := absent():
        return {"spark_udf_skipped": missing}
    source, written, rounds = real_rows(quick), drawn(), 1 if quick else 3
    rows = sum(batch.num_rows for _, batch in source)
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
        spark = _session(Path(name))
        frames = {stream: _cached(spark, Path(name), stream, source) for stream in POOLS}
        ways: dict[str, Callable[[], Any]] = {
            "Spark, each": lambda: _each(frames, written),
            "Spark, each, best order": lambda: _each(frames, cheap_first(written)),
            "Spark, one pass": lambda: _one_pass(frames, written),
            "the executor, written order": lambda: _executor(written, "FIFO", source),
            "the executor, MultiFactor": lambda: _executor(written, "MultiFactor", source),
        }
        counts = _counts(frames, written)  # also warms Spark up
        assert counts == _executor(written, "FIFO", source), counts
        taken: dict[str, list[float]] = {label: [] for label in ways}
        for _ in range(rounds):
            for label, way in ways.items():
                started = time.perf_counter()
                way()
                taken[label].append(time.perf_counter() - started)
        spark.stop()
    least = {label: min(each) for label, each in taken.items()}
    if not quick:
        table = page.table(
            ["way", "seconds", "source rows/s"], [[label, each, rows / each] for label, each in least.items()]
        )
        page.write("scheduling", "spark_udf", "Beside Spark SQL with UDFs", __doc__ or "", table)
    ours = least["the executor, MultiFactor"]
    best = min(each for label, each in least.items() if label.startswith("Spark"))
    return {
        "spark_udf_rows": rows,
        "spark_udf_seconds": {label: round(each, 2) for label, each in least.items()},
        "speedup_over_spark_udf": round(best / ours, 2),
        "speedup_over_spark_udf_as_written": round(least["Spark, each"] / ours, 2),
    }


def cheap_first(written: Asked) -> Asked:
    """Return the queries with their expensive predicates last, else as written."""
    return [(stream, sorted(names, key=lambda name: is_expensive(stream, name))) for stream, names in written]


def _session(folder: Path) -> SparkSession:
    from lakehouse.spark.session import started_session

    settings = Settings(home=folder / "home")
    spark = settings.spark.model_copy(update={"master": "local[1]"})
    return started_session(settings.model_copy(update={"spark": spark}))


def _cached(spark: SparkSession, folder: Path, stream: str, source: list[tuple[str, Any]]) -> DataFrame:
    import pyarrow.parquet as pq

    table = pa.Table.from_batches([batch for name, batch in source if name == stream])
    pq.write_table(table, folder / f"{stream}.parquet")
    frame = spark.read.parquet(str(folder / f"{stream}.parquet")).cache()
    assert frame.count() == table.num_rows
    return frame


def _verdict(stream: str, name: str) -> Column:
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.functions import pandas_udf

    if not is_expensive(stream, name):
        return F.expr(NATIVE[name])
    columns, ask = POOLS[stream][name]

    def verdicts(*series: pd.Series) -> pd.Series:
        # An empty number is null in Arrow and NaN in pandas; a predicate must be asked of what it expects.
        return pd.Series(ask(*(pa.array(each, from_pandas=True) for each in series)))

    # Its types know the old form only, in which a number says what kind of function it is.
    make: Any = pandas_udf
    asked: Column = make(verdicts, "boolean")(*columns)
    return asked


def _filtered(frames: dict[str, DataFrame], stream: str, names: list[str]) -> DataFrame:
    frame = frames[stream]
    for name in names:
        frame = frame.where(_verdict(stream, name))
    return frame


def _each(frames: dict[str, DataFrame], written: Asked) -> None:
    for stream, names in written:
        _filtered(frames, stream, names).write.format("noop").mode("overwrite").save()


def _one_pass(frames: dict[str, DataFrame], written: Asked) -> None:
    from pyspark.sql import functions as F

    for of, frame in frames.items():
        names = {name for stream, asked in written if stream == of for name in asked}
        asked_once = frame.select("*", *(_verdict(of, name).alias(name) for name in sorted(names)))
        queries_of = [asked for stream, asked in written if stream == of]
        passed = [
            F.expr(" AND ".join(f"coalesce({name}, false)" for name in asked)).alias(f"query{number}")
            for number, asked in enumerate(queries_of)
        ]
        anything = F.expr(" OR ".join(f"query{number}" for number in range(len(queries_of))))
        verdicts = asked_once.select(*frame.columns, *passed).where(anything)
        verdicts.write.format("noop").mode("overwrite").save()


def _counts(frames: dict[str, DataFrame], written: Asked) -> list[int]:
    return [_filtered(frames, stream, names).count() for stream, names in written]


def _executor(written: Asked, policy: str, source: list[tuple[str, Any]]) -> list[int]:
    return list(timed_run(queries(written), POLICIES[policy], source)[1])
