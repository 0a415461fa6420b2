"""One Spark session per process, started when needed: inside the process, or on the cluster that settings name."""

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, cast

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext, java_gateway
from pyspark.sql import SparkSession

from lakehouse.config.problems import EngineEnded, Permanent
from lakehouse.config.spark_settings import SparkSettings
from lakehouse.spark import cluster
from lakehouse.spark.archived_classes import archive_option
from lakehouse.spark.connect import connected, lacking_package
from lakehouse.spark.home import SparkHome
from lakehouse.spark.jars import jar_paths, missing_jars, reaches
from lakehouse.storage.ownership import kept_private
from lakehouse.storage.stores.store_access import spark_options

_LOOPBACK = "127.0.0.1"
# Of a shuffle inside one process: its batches are small.
_PARTITIONS = 2
_STARTING = Lock()
_OF_AZURE = "spark.hadoop.fs.azure.account."
# A connection ends a little before the process does.
_DIES_WITHIN_S = 5.0
# In errors of a server of Spark Connect that was started again, or is not there.
_SERVER_GONE = ("UNAVAILABLE", "SESSION_CHANGED", "SESSION_NOT_FOUND", "SESSION_CLOSED")
# A process has one session of Spark, and one JVM: so these are the process's too.
_LISTENERS: list[Callable[[str], None]] = []
# The newest session, and the home whose folders its workers were seen to share.
_KNOWN: list[tuple[SparkSession, Path]] = []
# The file of the newest descriptor takes what the JVM says.
_LOG: list[int] = []


class EngineIncomplete(Permanent, RuntimeError):
    """Spark cannot start or reach the tables: jars, or options of the configuration, are missing."""


def build_session(settings: SparkHome) -> SparkSession:
    """Return this process's session, which starts Spark when something is first asked of it.

    Raises EngineIncomplete when jars are missing, with the command that fetches them.
    """
    if settings.engine.runner == "spark" and settings.spark.is_connect:
        if package := lacking_package():
            raise EngineIncomplete(
                f"{settings.spark.master} needs {package}: pip install 'tidemark[connect]'"
            )
    elif settings.engine.runner == "spark":
        # The jars of other stores are asked for when Spark starts: small batches there do without.
        _require_jars("s3" if settings.tables.scheme == "s3" else None)
    return cast(SparkSession, LazySession(settings))


def _require_jars(store: str | None) -> None:
    if missing := missing_jars(store=store):
        more = f" --{store}" if store else ""
        raise EngineIncomplete(
            f"missing jars: {', '.join(missing)}; run `python -m lakehouse.spark.jars{more}`"
        )


class LazySession:
    """A session until it is needed: a batch of few rows is dealt with by its process, which then never starts a JVM."""

    def __init__(self, settings: SparkHome) -> None:
        self.settings = settings
        self._session: SparkSession | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.started(), name)

    def started(self) -> SparkSession:
        """Return the session itself, starting it when there is none."""
        with _STARTING:
            if self._session is None:
                self._session = _start(self.settings)
                _announce(self._session, self.settings)
        return self._session

    @property
    def is_local(self) -> bool:
        """True if it is to run in this process."""
        return self.settings.spark.is_local

    def present(self) -> SparkSession | None:
        """Return the session that this process has, None if it has none."""
        return self._session or SparkSession.getActiveSession()


def started_session(settings: SparkHome) -> SparkSession:
    """Return the session as ``build_session`` does, started, for who reads tables by Spark itself.

    Raises EngineIncomplete: also if Spark has no connector to the tables, which tasks of the engine do without.
    """
    _require_connector(settings)
    return cast(LazySession, build_session(settings)).started()


def session_with_log(settings: SparkHome, log: Path | None = None) -> SparkSession:
    """Return the session as ``build_session`` does; what the JVM says goes to a log, by default the home's own."""
    settings.home.mkdir(parents=True, exist_ok=True)
    # Open as long as the process, as the JVM is, which may be started at any time.
    send_words_to(os.open(log or settings.layout.spark_log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
    return build_session(settings)


@contextmanager
def announcing(tell: Callable[[str], None]) -> Iterator[None]:
    """Tell a function of each session that starts in the block: Spark's version, its master and its pages."""
    _LISTENERS.append(tell)
    try:
        yield
    finally:
        _LISTENERS.remove(tell)


def _announce(session: SparkSession, settings: SparkHome) -> None:
    """Tell of a session, once for each home: each job of a process asks for it again."""
    if _is_known(session, settings):
        return
    _KNOWN[:] = [(session, settings.home)]
    context = cluster.context_of(session)
    pages = f", its pages at {context.uiWebUrl}" if context and context.uiWebUrl else ""
    for tell in _LISTENERS:
        tell(f"Spark {session.version} on {settings.spark.master}{pages}")


def _is_known(session: SparkSession, settings: SparkHome) -> bool:
    return any(known is session and home == settings.home for known, home in _KNOWN)


def send_words_to(log: int) -> None:
    """Let what the JVM says in its life go to the file of this descriptor, if it is started later."""
    # Py4J logs every connection that it closes, the last ones after the log is closed.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    # PySpark prints each refused statement with the JVM's whole stack, besides raising it.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    _LOG.append(log)


def is_running(spark: object) -> bool:
    """Return whether the session's JVM still runs; where none was started, none has died."""
    session = _present(cast("SparkSession", spark))
    if session is None:
        return True
    context = cluster.context_of(session)
    if context is None:
        return _answers(session)
    process = getattr(context._gateway, "proc", None)
    return process is None or process.poll() is None


def _answers(session: SparkSession) -> bool:
    """Return whether the server of Spark Connect still has a session."""
    try:
        session.conf.get("spark.sql.session.timeZone")
    except Exception:
        return False
    return True


@contextmanager
def naming_death() -> Iterator[None]:
    """Let what fails because Spark's JVM has ended say so.

    Raises EngineEnded in the place of an error that came of its end.
    """
    try:
        yield
    except Exception as error:
        _require_engine(error)
        raise


def _require_engine(error: BaseException) -> None:
    if isinstance(error, EngineEnded):
        return
    if any(map(_is_of_server, _causes(error))):
        raise EngineEnded(
            "the server of Spark Connect has ended, or no longer has this session: nothing is lost; the next run, or "
            "the service started again, goes on from the last commit"
        ) from error
    process = getattr(SparkContext._gateway, "proc", None)
    if process is None or not any(map(_is_of_connection, _causes(error))):
        return
    try:
        status = process.wait(_DIES_WITHIN_S)
    except subprocess.TimeoutExpired:
        return
    raise EngineEnded(
        f"Spark's JVM has ended with status {status}, killed or out of memory (spark.driver_memory): nothing is "
        "lost; the next run, or the service started again, goes on from the last commit"
    ) from error


def _is_of_connection(error: BaseException) -> bool:
    return isinstance(error, Py4JError | ConnectionError) and not isinstance(error, Py4JJavaError)


def _is_of_server(error: BaseException) -> bool:
    """Return whether a server of Spark Connect did not answer, or has another session since."""
    if not type(error).__module__.startswith(("grpc.", "pyspark.errors.exceptions.connect")):
        return False
    return any(sign in str(error) for sign in _SERVER_GONE)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and those that it came of, as PySpark puts errors of its own in their place."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def is_local(spark: SparkSession) -> bool:
    """Return whether tasks run on this machine, in the process of the session; none is started for that."""
    if isinstance(spark, LazySession):
        return spark.is_local
    context = cluster.context_of(spark)
    return context is not None and str(context.master).startswith("local")


def cores_of(own: SparkSettings, spark: SparkSession) -> int:
    """Return on how many cores tasks run; only a session knows those of a cluster, and is started for that."""
    return cluster.parallelism(spark) if own.local_cores is None else own.local_cores


def end_session(spark: SparkSession) -> None:
    """Stop the session, where this process has one."""
    if session := _present(spark):
        session.stop()


def _present(spark: SparkSession) -> SparkSession | None:
    return spark.present() if isinstance(spark, LazySession) else spark


def _start(settings: SparkHome) -> SparkSession:
    own = settings.spark
    if problem := cluster.unreachable(own):
        raise cluster.ClusterUnavailable(
            f"no Spark master of {own.master} answers ({problem}): start it, or change [spark] master"
        )
    if own.is_connect:
        return _joined(connected(settings), settings)
    _quiet_environment(own)
    builder = SparkSession.Builder().appName("tidemark").master(own.master)
    for key, value in _options(settings).items():
        builder = builder.config(key, value)
    # Used as a library, this process has an umask of its own; the JVM's temporary folders have rows in them.
    with _words_to_log(), cluster.options_aside(own), kept_private():
        spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark if own.is_local else _joined(spark, settings)


def _require_connector(settings: SparkHome) -> None:
    """Return if Spark can read and write the tables where they are.

    Raises EngineIncomplete if the connector's jars are missing, or the options that it cannot do without.
    """
    scheme, options = settings.tables.scheme, settings.spark.options
    # A server of Spark Connect has connectors of its own.
    if settings.spark.is_connect or scheme in (None, "s3"):
        return
    if f"spark.hadoop.fs.{scheme}.impl" in options and not reaches(scheme):
        return
    if not reaches(scheme):
        raise EngineIncomplete(
            f"this needs Spark, which has no connector to tables at {scheme}://: name one in [spark.options], by "
            f"spark.jars and spark.hadoop.fs.{scheme}.impl"
        )
    _require_jars(scheme)
    if not any(name.startswith(_OF_AZURE) for name in options):
        raise EngineIncomplete(
            f"this needs Spark, which finds no credentials for {scheme}:// itself: name them in [spark.options], by "
            f"{_OF_AZURE}auth.type and its like"
        )


def _joined(spark: SparkSession, settings: SparkHome) -> SparkSession:
    if _is_known(spark, settings):
        return spark
    try:
        cluster.join_cluster(spark, settings)
        return spark
    except BaseException:
        # The next one to ask starts anew.
        spark.stop()
        raise


@contextmanager
def _words_to_log() -> Iterator[None]:
    """Let a JVM that is started have the log as its error stream, to which it writes a lot."""
    if not _LOG:
        yield
        return
    # Not this process's own stream, to which other threads may write meanwhile.
    launcher: Any = java_gateway
    launch = launcher.Popen
    launcher.Popen = partial(launch, stderr=_LOG[-1])
    try:
        yield
    finally:
        launcher.Popen = launch


def _quiet_environment(own: SparkSettings) -> None:
    # Spark would otherwise start some Python workers with the system's interpreter, which has no numpy.
    os.environ["PYSPARK_PYTHON"] = sys.executable if own.is_local else cluster.python_of(own)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if cluster.is_loopback(own):
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)


def _options(settings: SparkHome) -> dict[str, str]:
    """Return the options that Tidemark sets, without those that the user has set."""
    own = settings.spark
    options = _common(settings)
    if cluster.is_loopback(own):
        options["spark.driver.host"] = _LOOPBACK
    if own.is_local or own.shuffle_partitions:
        partitions = str(own.shuffle_partitions or _PARTITIONS)
        options |= {"spark.sql.shuffle.partitions": partitions, "spark.default.parallelism": partitions}
    if own.is_local:
        # Workers of a cluster get the project's code with their first task, after their daemon has started.
        options["spark.python.daemon.module"] = "lakehouse.spark.worker_daemon"
    else:
        options |= cluster.cluster_options(own, store=settings.tables.scheme)
    if own.event_log is not None:
        options |= _event_log(settings.home / own.event_log)
    if settings.tables.scheme is not None:
        options |= spark_options(settings.tables.scheme)
    return {name: value for name, value in options.items() if name not in own.options}


def _event_log(folder: Path) -> dict[str, str]:
    # Spark does not make it.
    with kept_private():
        folder.mkdir(parents=True, exist_ok=True)
    return {"spark.eventLog.enabled": "true", "spark.eventLog.dir": folder.absolute().as_uri()}


def _common(settings: SparkHome) -> dict[str, str]:
    return {
        # On the class path, since the archive of classes covers no others; ``spark.jars`` would also copy them.
        "spark.driver.extraClassPath": os.pathsep.join(jar_paths(store=settings.tables.scheme)),
        "spark.driver.memory": settings.spark.driver_memory,
        "spark.driver.extraJavaOptions": f"{settings.spark.java_options} {archive_option()}",
        # Whoever else is on this machine cannot speak to the session's ports; Spark draws the secret itself.
        "spark.authenticate": "true",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.databricks.delta.snapshotPartitions": "1",
        # A vacuum lists a table's folder with ten thousand tasks otherwise.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "200000",
        **cluster.options_of_jobs(),
        # As the Delta protocol has it; Spark's own default is an older type that other readers take for nanoseconds.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # Rows of a batch are held for seconds: compressing them costs more than it saves.
        "spark.sql.inMemoryColumnarStorage.compressed": "false",
        "spark.sql.warehouse.dir": str(settings.home / "spark-warehouse"),
        "spark.ui.enabled": str(settings.spark.ui).lower(),
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.streaming.metricsEnabled": "false",
    }
