"""A registered query that runs, batch after batch: what its kind does, and how one runs by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from lakehouse.queries.runtime.source import FromRaw, Intake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.home.layout import Home
    from lakehouse.queries.registered import Query
    from lakehouse.queries.runtime.batch import Through
    from lakehouse.queries.runtime.batch_manifest import Plan

I_contra = TypeVar("I_contra", bound="Intake", contravariant=True)


class Run(Protocol[I_contra]):
    """A registered query of any kind, and where it runs; ``counts``: the figures that ``finish`` returns."""

    @property
    def spark(self) -> SparkSession:
        """The session."""

    @property
    def layout(self) -> Home:
        """Where its tables are."""

    @property
    def query(self) -> Query:
        """The query."""

    @property
    def counts(self) -> tuple[str, ...]:
        """The names of the figures."""

    def begin(self) -> None:
        """Create the tables that are not there.

        Raises:
            QueryChanged: when the query means something else than its tables.
        """

    def next(self, most_rows: int, through: Through | None = None) -> Plan | None:
        """Return the batch that was begun, or write down the next one; None when all is taken."""

    def finish(self, plan: Plan, intake: I_contra) -> dict[str, Any]:
        """Append all that a batch comes to, its figures last; return these."""


def drain(run: Run[Intake], most_rows: int) -> dict[str, int]:
    """Take in, by itself, all finished ingest batches that no batch of the query holds yet; return what they came to.

    Raises:
        QueryChanged: when the query means something else than its tables.
    """
    run.begin()
    totals = dict.fromkeys(("batches", *run.counts), 0)
    while (plan := run.next(most_rows)) is not None:
        add(totals, run.finish(plan, FromRaw(run.spark, run.layout, run.query, plan.spans)))
    return totals


def add(totals: dict[str, int], figures: dict[str, Any]) -> None:
    """Add a batch to totals."""
    totals["batches"] += 1
    for name in totals.keys() - {"batches"}:
        totals[name] += figures[name]
