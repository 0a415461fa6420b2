"""Streams as a configuration declares them, one value changed at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakehouse.config.stream import Stream
from lakehouse.queries.aggregate.query import AggregateQuery
from lakehouse.queries.multiway.query import MultiwayQuery
from lakehouse.queries.pairs.query import PairsQuery
from lakehouse.queries.registered import parse_query

SECOND = 1_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86_400 * SECOND


def stream_of(**changes: Any) -> Stream:
    """Return a stream of readings with these values instead."""
    declared: dict[str, Any] = {
        "name": "readings",
        "event_time": {"column": "ts", "unit": "us"},
        "keys": ["device", "room"],
        "measures": ["temp"],
        "groupings": [["device"], []],
        "levels": ["1s for 1h", "1m for 2d", "1d forever"],
        "source": {"path": "landing/*", "format": "ndjson"},
        "columns": {"count": "int", "volts": {"type": "decimal", "decimals": 3}},
    }
    return Stream.model_validate(declared | changes)


def join_of(name: str, text: str, streams: Mapping[str, Stream]) -> PairsQuery:
    """Return the query of pairs that a text is."""
    query = parse_query(name, text, streams)
    assert isinstance(query, PairsQuery)
    return query


def aggregate_of(name: str, text: str, streams: Mapping[str, Stream]) -> AggregateQuery:
    """Return the query of aggregates that a text is."""
    query = parse_query(name, text, streams)
    assert isinstance(query, AggregateQuery)
    return query


def multiway_of(name: str, text: str, streams: Mapping[str, Stream]) -> MultiwayQuery:
    """Return the query of three streams or more that a text is."""
    query = parse_query(name, text, streams)
    assert isinstance(query, MultiwayQuery)
    return query
