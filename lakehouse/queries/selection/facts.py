"""What a publisher must know about a registered selection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lakehouse.declare.stream import Stream
from lakehouse.home.layout import Home
from lakehouse.queries.runtime.batch_metrics import read_figures
from lakehouse.queries.runtime.facts import files_of, published_from, shared_facts, stored_type
from lakehouse.queries.selection.query import SelectionQuery
from lakehouse.serving.file.facts import QueryFacts, ShownColumn

_FIGURES = ("batch", "operator", "rows", "selected", "time_us")


@dataclass(frozen=True, kw_only=True)
class SelectionFacts(QueryFacts):
    """A selection as it is to be published; ``selected_files`` are the data files of its rows."""

    columns: Sequence[ShownColumn]
    selected: int
    selected_files: Sequence[Path]


def selection_facts(
    layout: Home, query: SelectionQuery, streams: Mapping[str, Stream], published_us: int | None
) -> SelectionFacts:
    """Return what a publisher is told of a query; ``published_us`` back from its newest time, None for all."""
    # Before the files, so that these have all that the figures speak of.
    figures = read_figures(layout, query.name, _FIGURES)
    shared = shared_facts(layout, query, streams, figures, [row["time_us"] for row in figures.rows])
    return SelectionFacts(
        **shared,
        published_from_us=published_from(shared["newest_us"], published_us, 1),
        columns=[
            ShownColumn(
                each.name,
                stored_type(streams[query.stream], each.column),
                f"{each.column} of the row of {query.stream}.",
            )
            for each in query.outputs
        ],
        selected=figures.total("selected"),
        selected_files=files_of(layout.selected(query.name)),
    )
