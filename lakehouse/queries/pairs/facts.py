"""What a publisher must know about a registered join of pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lakehouse.declare.stream import Stream
from lakehouse.home.layout import Home
from lakehouse.queries.pairs.query import JoinQuery
from lakehouse.queries.runtime.batch_metrics import read_figures
from lakehouse.queries.runtime.facts import files_of, published_from, shared_facts, stored_type
from lakehouse.serving.file.facts import QueryFacts, ShownColumn

_SIDES = ("left", "right")
_NEWEST = tuple(f"{side}_newest_us" for side in _SIDES)
_FIGURES = ("batch", "bucket", "rows", "pairs", "missed", "refused", "unusable", "time_us", *_NEWEST)


@dataclass(frozen=True, kw_only=True)
class PairFacts(QueryFacts):
    """A join of pairs as it is to be published; ``pair_files`` are the data files of its pairs."""

    window_us: int
    recall: float
    period_us: int
    step_us: int
    columns: Sequence[ShownColumn]
    pairs: int
    pair_files: Sequence[Path]

    @property
    def final_before_us(self) -> int | None:
        """Nothing that came as late as its streams allow can still change the time before it."""
        return None if self.time_us is None else self.time_us - self.latest_us


def pair_facts(
    layout: Home, query: JoinQuery, streams: Mapping[str, Stream], published_us: int | None
) -> PairFacts:
    """Return what a publisher is told of a query; ``published_us`` back from its newest time, None for all."""
    # Before the files, so that these have all that the figures speak of.
    figures = read_figures(layout, query.name, _FIGURES)
    newest = [row[name] for row in figures.rows for name in _NEWEST]
    shared = shared_facts(layout, query, streams, figures, newest)
    return PairFacts(
        **shared,
        # A step that is cut would show fewer pairs than it has.
        published_from_us=published_from(shared["newest_us"], published_us, query.step_us),
        window_us=query.window_us,
        recall=query.recall,
        period_us=query.period_us,
        step_us=query.step_us,
        columns=[_column(query, streams, place) for place in range(len(query.outputs))],
        pairs=figures.total("pairs"),
        pair_files=files_of(layout.joins(query.name)),
    )


def _column(query: JoinQuery, streams: Mapping[str, Stream], place: int) -> ShownColumn:
    output = query.outputs[place]
    stream = query.sides[output.side].stream
    says = f"{output.column} of the {_SIDES[output.side]} row, of {stream}."
    return ShownColumn(output.name, stored_type(streams[stream], output.column), says)
