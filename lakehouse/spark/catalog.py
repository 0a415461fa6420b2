"""Names of a home's tables in Spark's catalog, for Spark jobs that its users write: ``raw.telemetry``.

A schema is a kind of table (``raw``, ``rollup``, ``pairs`` ...), a table a stream or registered query. Each name stands
for the Delta table where the home has it, so ``VERSION AS OF`` works, and the newest version is read at each query.
"""

from collections.abc import Iterator

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from lakehouse.spark import tables
from lakehouse.spark.cluster import ADAPTIVE
from lakehouse.spark.connect import token_of
from lakehouse.spark.home import SparkHome
from lakehouse.spark.session import started_session
from lakehouse.spark.workers import look_at_workers
from lakehouse.storage.layout import Home
from lakehouse.storage.stores.store_path import Location

_CONNECT = "org.apache.spark.sql.connect.SparkConnectPlugin"


class WrongStatement(ValueError):
    """A statement that Spark refuses before it runs."""


def named_tables(settings: SparkHome) -> dict[str, Location]:
    """Return the tables that exist of the declared streams and registered queries, by schema and name."""
    paths = [path for path in _paths(settings) if tables.exists(path)]
    return {f"{path.parent.name}.{path.name}": path for path in paths}


def _paths(settings: SparkHome) -> Iterator[Location]:
    layout: Home = settings.layout
    for stream in settings.streams:
        yield from (layout.raw(stream), layout.quarantine(stream), layout.ledger(stream))
        yield from (layout.rollup(stream), layout.corrections(stream), layout.profile(stream))
    for query in settings.registered:
        yield from layout.tables_of(query)


def open_session(settings: SparkHome) -> SparkSession:
    """Start this process's session, in which the home's tables have names.

    Cost: the start of the session, and some tenths of a second for each table. Raises RuntimeError when jars are
    missing, with the command that fetches them; ClusterUnavailable when no master answers.
    """
    own = settings.spark
    options = {ADAPTIVE: "true", **own.options}
    asked = settings.model_copy(update={"spark": own.model_copy(update={"options": options})})
    return _named(started_session(asked), asked)


def serve_sessions(settings: SparkHome, host: str, port: int) -> SparkSession:
    """Start a session as ``open_session`` does that serves Spark Connect to whoever has its token, and warm it.

    Where ``[spark] master`` is a server of Spark Connect, this process is that server. Raises RuntimeError or
    ClusterUnavailable as ``open_session``.
    """
    own = settings.spark
    options = {
        **own.options,
        "spark.plugins": _CONNECT,
        "spark.connect.grpc.binding.address": host,
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.port.maxRetries": "0",
        "spark.connect.authenticate.token": token_of(settings),
    }
    served = {"options": options, "master": "local[*]" if own.is_connect else own.master}
    session = open_session(settings.model_copy(update={"spark": own.model_copy(update=served)}))
    # The first task of a session takes seconds, of which no client shall wait.
    look_at_workers(session, None, (), 0)
    return session


def result_of(spark: SparkSession, statement: str) -> DataFrame:
    """Return the rows of a statement, which runs when they are asked for.

    Raises WrongStatement with Spark's first sentence, without its plan.
    """
    try:
        return spark.sql(statement)
    except AnalysisException as error:
        raise WrongStatement(str(error).splitlines()[0]) from None


def _named(spark: SparkSession, settings: SparkHome) -> SparkSession:
    known = named_tables(settings)
    for schema in sorted({name.partition(".")[0] for name in known}):
        spark.sql(f"CREATE SCHEMA IF NOT EXISTS `{schema}`")
    for name, path in known.items():
        schema, _, table = name.partition(".")
        location = str(path.absolute()).replace("\\", "\\\\").replace("'", "\\'")
        spark.sql(f"CREATE TABLE IF NOT EXISTS `{schema}`.`{table}` USING DELTA LOCATION '{location}'")
    return spark
