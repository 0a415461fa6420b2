"""Cost of a warm Spark job of one Arrow function, with this project's daemon of workers and with Spark's own.

    python -m tests.benchmarks.start arrow_job [--json]

A process with a session each: thirty jobs warm it up, then the median of thirty more. Two tasks, three rows.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping

JOBS = 30
PROCESS = """
import json, statistics, sys, time
from pathlib import Path
import pyarrow as pa
from lakehouse.settings import Settings
from lakehouse.spark.session import started_session
from tests.benchmarks.parts import cpu_s
spark = started_session(Settings.model_validate({"home": Path(sys.argv[1]), "spark": json.loads(sys.argv[2])}))
rows, seconds, processor = spark.createDataFrame(pa.table({"n": [1, 2, 3]})), [], []
for job in range(2 * int(sys.argv[3])):
    started, before = time.perf_counter(), cpu_s()
    rows.mapInArrow(lambda batches: batches, "n long").toArrow()
    seconds.append(time.perf_counter() - started)
    processor.append(cpu_s() - before)
half = len(seconds) // 2
print(json.dumps([statistics.median(seconds[half:]), statistics.median(processor[half:])]))
"""
OWN_OF_SPARK: Mapping[str, object] = {"options": {"spark.python.daemon.module": "pyspark.daemon"}}


def figures(quick: bool) -> dict[str, float]:
    """Return seconds of the clock and of processors of a job, by both daemons, and the ratio of the latter."""
    jobs = JOBS // 10 if quick else JOBS
    (ours, ours_cpu), (spark, spark_cpu) = _job({}, jobs), _job(OWN_OF_SPARK, jobs)
    return {
        "job_s": round(ours, 3),
        "job_processor_s": round(ours_cpu, 3),
        "daemon_of_spark_s": round(spark, 3),
        "daemon_of_spark_processor_s": round(spark_cpu, 3),
        "saved": round(1 - ours_cpu / spark_cpu, 2),
    }


def _job(own: Mapping[str, object], jobs: int) -> tuple[float, float]:
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder:
        called = [sys.executable, "-c", PROCESS, folder, json.dumps(own), str(jobs)]
        printed = subprocess.run(called, check=True, capture_output=True, text=True).stdout
    seconds, processor = json.loads(printed.splitlines()[-1])
    return seconds, processor
