"""Session on a cluster: its master, workers that fit, and the code that they run.

before the start    the master is asked for a connection; options go to the JVM in a file that only its owner reads
after it            the package's archive is sent, each worker is looked at once, partitions follow the cores
"""

import os
import re
import shlex
import socket
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLate
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lakehouse.config.spark_settings import SparkSettings
from lakehouse.spark.home import SparkHome
from lakehouse.spark.jars import jar_paths
from lakehouse.spark.package_archive import package_archive
from lakehouse.spark.workers import advice, differences, look_at_workers, versions_here

# How the workers' Numba is told of ``kernel_cache``, before its own rules. Not read here, because Numba loads long.
_LOCATORS = "lakehouse.spark.kernel_cache.ArchivedKernels,InTreeCacheLocator,UserWideCacheLocator"
_CONNECT_S = 3.0
# Tasks that look at workers last so long, so that each core gets one; a server of Spark Connect has looked at its own.
_LOOK_S = 0.3
# Kubernetes fetches an image first.
_WORKERS_S = {True: 60.0, False: 600.0}
_PYTHON = "spark.pyspark.python"
_OTHER_PYTHON = re.compile(r"PYTHON_VERSION_MISMATCH\D*([\d.]+)\D*([\d.]+)")
_SUBMIT = "PYSPARK_SUBMIT_ARGS"
ADAPTIVE = "spark.sql.adaptive.enabled"


class ClusterUnavailable(RuntimeError):
    """No master answers, no worker takes a task, or a worker is not as the driver is."""


def unreachable(spark: SparkSettings) -> str:
    """Return why no master can be reached, nothing where one can or Spark runs in the process; three seconds each."""
    problems = []
    for address in spark.addresses():
        try:
            with socket.create_connection(address, _CONNECT_S):
                return ""
        except OSError as error:
            problems.append(f"{address[0]}:{address[1]}: {error}")
    return "; ".join(problems)


def is_loopback(spark: SparkSettings) -> bool:
    """True if Spark runs on this machine alone, in the process or beside it."""
    return all(host == "localhost" or host.startswith("127.") for host, _ in spark.addresses())


def cluster_options(spark: SparkSettings, *, store: str | None = None) -> dict[str, str]:
    """Return the options that workers need, and None of which is a secret."""
    return {
        # Workers fetch Delta's and Kafka's classes from the driver.
        "spark.jars": ",".join(jar_paths(store=store)),
        "spark.executorEnv.NUMBA_CACHE_LOCATOR_CLASSES": _LOCATORS,
        # A standalone cluster knows its own by a secret that it must have been given; Kubernetes draws one.
        "spark.authenticate": str(not spark.is_standalone or spark.secret is not None).lower(),
    }


def python_of(spark: SparkSettings) -> str:
    """Return the Python that workers start: what the options name, else the first ``python3`` on their path."""
    return spark.options.get(_PYTHON, "python3")


@contextmanager
def options_aside(spark: SparkSettings) -> Iterator[None]:
    """Let a JVM that starts meanwhile read the user's options and the secret from a file, which only its owner reads.

    Options on its command line could be read by every user of the machine, and some hold passwords.
    """
    secret = {"spark.authenticate.secret": spark.secret.get_secret_value()} if spark.secret else {}
    told = spark.options | (secret if spark.is_standalone else {})
    if not told:
        yield
        return
    given = os.environ.get(_SUBMIT)
    with tempfile.NamedTemporaryFile("w", suffix=".conf", encoding="utf-8") as file:
        file.writelines(f"{_escaped(name)}={_escaped(value)}\n" for name, value in told.items())
        file.flush()
        aside = f"--properties-file {shlex.quote(file.name)} --load-spark-defaults"
        os.environ[_SUBMIT] = f"{aside} {given or 'pyspark-shell'}"
        try:
            yield
        finally:
            if given is None:
                del os.environ[_SUBMIT]
            else:
                os.environ[_SUBMIT] = given


def _escaped(text: str) -> str:
    """Return text as a file of Java's properties has it."""
    escaped = "".join(f"\\{c}" if c in "\\ :=#!\t" else c for c in text)
    return escaped.replace("\n", "\\n").replace("\r", "\\r")


def join_cluster(session: SparkSession, settings: SparkHome) -> None:
    """Send the package to the workers, look at each of them, and let partitions follow their cores.

    Raises ClusterUnavailable when no worker takes a task, or one differs from the driver in what counts.
    """
    archive = str(package_archive(settings.layout.packages))
    if settings.spark.is_connect:
        session.addArtifacts(archive, pyfile=True)
    else:
        session.sparkContext.addPyFile(archive)
    wrong, cores = look_in_time(session, settings)
    if wrong:
        raise ClusterUnavailable(f"workers of {settings.spark.master}: {advice(wrong)}")
    session.conf.set("spark.sql.shuffle.partitions", settings.spark.shuffle_partitions or max(cores, 2))


def look_in_time(session: SparkSession, settings: SparkHome) -> tuple[list[str], int]:
    """Return what is wrong with the workers, and how many cores they have.

    Raises ClusterUnavailable when none takes a task in time.
    """
    waited_s = _WORKERS_S[settings.spark.is_standalone]
    pool = ThreadPoolExecutor(1)
    looking = pool.submit(_wrong_with_workers, session, settings)
    try:
        return looking.result(waited_s)
    except TooLate:
        cancel = session.interruptAll if settings.spark.is_connect else session.sparkContext.cancelAllJobs
        cancel()
        raise ClusterUnavailable(
            f"no worker of {settings.spark.master} took a task in {waited_s:.0f} s: are workers registered, has "
            "another application all their cores (each may be given some by [spark.options] spark.cores.max), or "
            "do they have less memory than spark.executor.memory?"
        ) from None
    finally:
        pool.shutdown(wait=False)


def _wrong_with_workers(session: SparkSession, settings: SparkHome) -> tuple[list[str], int]:
    folders = sorted(
        {Path(stream.source.path).parent for stream in settings.streams.values() if stream.source.path}
    )
    shared = [folder for folder in folders if "*" not in str(folder) and folder.is_dir()]
    layout = settings.layout
    # Tasks read and write tables, and nothing else of a home.
    home = None if layout.on_store else layout.root
    try:
        workers = look_at_workers(session, home, shared, 0 if settings.spark.is_connect else _LOOK_S)
    except Exception as error:
        other = _OTHER_PYTHON.search(str(error))
        if other is None:
            raise
        return [f"a worker has Python {other[1]}, the driver {other[2].rstrip('.')}"], 0
    # A client of Spark Connect has no Java.
    javas = [] if settings.spark.is_connect else _other_javas(session)
    return differences(versions_here(), workers) + javas, len(workers)


def _other_javas(session: Any) -> list[str]:
    here = session.sparkContext._jvm.java.lang.System.getProperty("java.version")
    cores = max(session.sparkContext.defaultParallelism, 1)
    asked = session.range(0, cores, 1, cores).selectExpr(
        "java_method('java.lang.System', 'getProperty', 'java.version') AS version"
    )
    versions = {row["version"] for row in asked.collect()}
    return [
        f"a worker has Java {each}, the driver {here}"
        for each in sorted(versions)
        if _major(each) != _major(here)
    ]


def _major(version: str) -> str:
    return version.split(".")[0]


def described(session: SparkSession) -> Mapping[str, str]:
    """Return what ``tidemark doctor`` tells of a cluster: Spark, Java, Python and the number of cores."""
    context = context_of(session)
    java = {"Java": context._jvm.java.lang.System.getProperty("java.version")} if context else {}
    return {
        "Spark": session.version,
        **java,
        "Python": versions_here()["Python"],
        "cores of workers": str(parallelism(session)),
    }


def context_of(session: SparkSession) -> Any:
    """Return the context of a session, None of one on a server of Spark Connect, whose clients have none."""
    return getattr(session, "sparkContext", None)


def options_of_jobs() -> dict[str, str]:
    """Return options of the sessions of Tidemark's own jobs, wherever these run."""
    # Spark's adaptive plans run each side of a shuffle as a job of its own; keys have about as many rows each.
    return {ADAPTIVE: "false"}


def parallelism(session: SparkSession) -> int:
    """Return how many tasks run at a time."""
    context = context_of(session)
    partitions = context and context.defaultParallelism
    # A session without a context has as many partitions as ``join_cluster`` has seen cores.
    return int(partitions or session.conf.get("spark.sql.shuffle.partitions") or 2)
