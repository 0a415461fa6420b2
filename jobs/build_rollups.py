"""Build every rollup level and grouping of one stream from the raw rows ingested since the last run.

One commit per run; running it again adds nothing. ``rebuild`` builds everything again, for a stream whose declaration
has changed, or the nodes of a range.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from jobs.running.command import run_for
from lakehouse.config.problems import ConfigError, Permanent, Problem
from lakehouse.config.stream import instant_us
from lakehouse.corrections import corrections
from lakehouse.corrections.rebuild import plan_all
from lakehouse.rollup import rollup
from lakehouse.settings import Settings
from lakehouse.spark import tables
from lakehouse.storage.corrections import read_corrections


class NothingIngested(Permanent, RuntimeError):
    """There are no raw rows to build from."""


def run(settings: Settings, spark: SparkSession, stream: str) -> dict[str, Any]:
    """Append the nodes of new ingest batches; return how many batches and rows.

    Raises LeaseHeld if another process builds this stream's rollups now, or one that publishes, folds or rebuilds
    them holds them for longer than ``WAIT_S``; RawIncomplete if the rollup is missing and raw rows that it held are
    deleted too; RollupOutdated if the stream's levels, groupings or measures have changed since they were built.
    """
    layout = settings.layout
    path = layout.rollup(stream)
    with tables.turn(layout, path, "build"):
        if not tables.exists(layout.ledger(stream)):
            return {"batches": 0, "rows": 0}
        if not tables.exists(path) and read_corrections(layout, stream):
            plan_all(spark, layout, settings.stream(stream))
        corrections.finish_open(spark, layout, settings.stream(stream), also=layout.raw(stream))
        return rollup.append_new(spark, layout, settings.stream(stream))


def rebuild(
    settings: Settings, spark: SparkSession, stream: str, from_us: int | None = None, to_us: int | None = None
) -> dict[str, Any]:
    """Build nodes again from raw: all by the present declaration, or those of a range, widened to whole top nodes.

    One commit: readers see the table before or after. The published answers stay until the next publish. Raises
    NothingIngested if there is no ledger to build from; RawIncomplete if raw rows for it are deleted and older nodes
    cannot replace them; RollupOutdated if a range is given and the stream's declaration has changed; LeaseHeld if
    another process writes this stream's tables for longer than ``WAIT_S``.
    """
    layout, declared = settings.layout, settings.stream(stream)
    if not tables.exists(layout.ledger(stream)):
        raise NothingIngested(f"stream {stream}: nothing has been ingested yet; run `tidemark run`")
    raw, built = layout.raw(stream), layout.rollup(stream)
    with tables.lease(layout, raw, tables.WAIT_S), tables.lease(layout, built, tables.WAIT_S):
        corrections.finish_open(spark, layout, declared)
        return corrections.rebuild(spark, layout, declared, from_us, to_us)


def run_or_rebuild(params: Mapping[str, Any]) -> Callable[..., dict[str, Any]]:
    """Return ``run``, or a function that rebuilds the range given by ``from`` and ``to`` of a DAG's parameters.

    Raises ConfigError if one is no time, or the range is empty.
    """
    start, end = (_end_of_range(params, name) for name in ("from", "to"))
    if start is None and end is None:
        return run
    if start is not None and end is not None and start >= end:
        raise ConfigError("parameters", [Problem("to", repr(params["to"]), "a time after `from`")])

    def rebuild_range(settings: Settings, spark: SparkSession, stream: str) -> dict[str, Any]:
        return rebuild(settings, spark, stream, start, end)

    return rebuild_range


def _end_of_range(params: Mapping[str, Any], name: str) -> int | None:
    try:
        return instant_us(params[name]) if params.get(name) else None
    except ValueError as error:
        expected = str(error).removeprefix("expected ")
        raise ConfigError("parameters", [Problem(name, repr(params[name]), expected)]) from None


main = partial(run_for, "stream", run)


if __name__ == "__main__":
    raise SystemExit(main())
