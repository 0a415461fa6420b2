"""Jobs that are killed where a test asks, in processes that are forked with everything imported.

A killed process loses what its Python held; what it wrote stays. Such a process uses the JVM of the test's session, so
a kill costs a fork where a fresh process would start Python and a JVM anew. ``kill_fresh`` does start them: one kill of
every job is of such a process, since a JVM that goes on could hide what only its end shows.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
# What the server of forks imports once.
IMPORTED = ("tests.support.preloaded", "tests.end_to_end.correcting")
_CLONED = "org.apache.spark.sql.classic.SparkSession"


def kill(spark: SparkSession, point: str, module: str, *words: str) -> None:
    """Run ``main(words)`` of a module, in a forked process on the JVM of a session, up to a crash point."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    parameters = gateway.gateway_parameters
    environment = {
        "TIDEMARK_CRASH_AT": point,
        "PYSPARK_GATEWAY_PORT": str(parameters.port),
        "PYSPARK_GATEWAY_SECRET": parameters.auth_token,
    }
    # The server of forks may have been started before a test had credentials.
    environment |= {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    with tempfile.NamedTemporaryFile("r") as output:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([*IMPORTED, __name__])
        process = context.Process(target=_run, args=(environment, module, words, output.name))
        process.start()
        process.join()
        _forget(spark)
        assert process.exitcode == -signal.SIGKILL, f"{point} was not passed: {output.read()[-3000:]}"


def kill_fresh(point: str, module: str, *words: str) -> None:
    """Run ``main(words)`` of a module, in a Python and a JVM of its own, up to a crash point."""
    command = [sys.executable, "-m", module, *words]
    environment = os.environ | {"TIDEMARK_CRASH_AT": point, "TIDEMARK_ENGINE__RUNNER": "spark"}
    ended = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGKILL, f"{point} was not passed: {ended.stderr[-3000:]}"


def _run(environment: dict[str, str], module: str, words: tuple[str, ...], output: str) -> None:
    code = 1
    with open(output, "w") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    os.environ.update(environment)
    try:
        attach()
        code = importlib.import_module(module).main(list(words)) or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # Without the functions for the interpreter's end, which would stop Spark in a JVM that others use.
        os._exit(code)


def attach() -> None:
    """Make a copy of the JVM's session this process's one, so that what is set in it dies with the process."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    gateway = launch_gateway()  # type: ignore[no-untyped-call]
    jvm: Any = gateway.jvm
    java_context = jvm.JavaSparkContext(jvm.org.apache.spark.SparkContext.getOrCreate())
    conf = SparkConf(_jvm=jvm, _jconf=java_context.getConf())
    context = SparkContext(gateway=gateway, jsc=java_context, conf=conf)
    SparkSession(context, getattr(jvm, _CLONED).getDefaultSession().get().cloneSession())


def _forget(spark: SparkSession) -> None:
    """End what the dead process left in the JVM: jobs, rows in memory, its session as the default one."""
    context = spark.sparkContext
    context.cancelAllJobs()
    while context.statusTracker().getActiveJobsIds():
        time.sleep(0.05)
    spark.catalog.clearCache()
    getattr(context._jvm, _CLONED).setDefaultSession(spark._jsparkSession)
