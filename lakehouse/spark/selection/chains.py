"""Selections as chains of operators; conditions of equal text are one predicate, which is asked once a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakehouse.algorithms.scheduling.contract import Chain, Operator, Query
from lakehouse.algorithms.scheduling.operators import Predicate
from lakehouse.catalog.row_conditions import Conjunct
from lakehouse.catalog.selection_query import SelectionQuery
from lakehouse.spark.selection.calls import Call, Source
from lakehouse.spark.selection.masks import mask_of


def written(queries: Sequence[SelectionQuery]) -> list[Query]:
    """Return the chains of selections as they are planned: operators by name, in the written order."""
    return [_chain(query, [_named(each) for each in query.conjuncts]) for query in queries]


def runnable(queries: Sequence[SelectionQuery], sources: Mapping[str, Source]) -> list[Query]:
    """Return the chains of selections as they are run; ``sources``: predicates of the operator's own by text."""
    runs = {
        each.text: Call(sources[each.text]) if each.call else mask_of(each.text)
        for query in queries
        for each in query.conjuncts
    }
    return [
        _chain(query, [_predicate(each, runs[each.text]) for each in query.conjuncts]) for query in queries
    ]


def sources_of(queries: Sequence[SelectionQuery]) -> dict[str, Source]:
    """Return what the files of all predicates say now, by the text of the call."""
    calls = {each.text: each for query in queries for each in query.conjuncts if each.call}
    return {
        text: Source.of(each.call.name, each.columns, each.call.by_row, each.call.path)
        for text, each in calls.items()
        if each.call
    }


@dataclass(frozen=True, kw_only=True)
class _Named(Operator):
    """A condition that is only planned; ``shared`` is as it is of the one that is run."""

    shared: str


def _named(conjunct: Conjunct) -> Operator:
    return _Named(name=conjunct.text, commutes=True, shared=conjunct.text)


def _predicate(conjunct: Conjunct, run: Callable[[Any], Any]) -> Predicate:
    return Predicate(name=conjunct.text, run=run, columns=conjunct.columns, shared=conjunct.text)


def _chain(query: SelectionQuery, operators: Sequence[Operator]) -> Query:
    return Query(query.name, Chain(query.stream, tuple(operators)), query.deadline_us)
