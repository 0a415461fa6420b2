"""What a publisher must know about a registered join of three streams or more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lakehouse.declare.stream import Stream
from lakehouse.home.layout import Home
from lakehouse.queries.multiway.query import MultiwayQuery
from lakehouse.queries.runtime.batch_metrics import read_figures
from lakehouse.queries.runtime.facts import files_of, published_from, shared_facts, stored_type
from lakehouse.serving.file.facts import QueryFacts, ShownColumn

_FIGURES = ("batch", "side", "rows", "results", "missed", "refused", "unusable", "time_us", "newest_us")


@dataclass(frozen=True, kw_only=True)
class MultiwayFacts(QueryFacts):
    """A join of three streams or more as it is to be published; ``result_files`` are the data files of its results."""

    slack_us: int
    columns: Sequence[ShownColumn]
    results: int
    result_files: Sequence[Path]


def multiway_facts(
    layout: Home, query: MultiwayQuery, streams: Mapping[str, Stream], published_us: int | None
) -> MultiwayFacts:
    """Return what a publisher is told of a query; ``published_us`` back from its newest time, None for all."""
    # Before the files, so that these have all that the figures speak of.
    figures = read_figures(layout, query.name, _FIGURES)
    newest = [time for row in figures.rows for time in row["newest_us"]]
    shared = shared_facts(layout, query, streams, figures, newest)
    return MultiwayFacts(
        **shared,
        published_from_us=published_from(shared["newest_us"], published_us, 1),
        slack_us=query.slack_us,
        columns=[_column(query, streams, place) for place in range(len(query.outputs))],
        results=figures.total("results"),
        result_files=files_of(layout.joins(query.name)),
    )


def _column(query: MultiwayQuery, streams: Mapping[str, Stream], place: int) -> ShownColumn:
    output = query.outputs[place]
    side = query.sides[output.side]
    says = f"{output.column} of the row of {side.alias}, of {side.stream}."
    return ShownColumn(output.name, stored_type(streams[side.stream], output.column), says)
