"""Streams and queries that a scheduled run processes: named by its parameters, or by the events that started it."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from jobs.running.outcome import ALL_STREAMS
from jobs.running.scheduled import configured
from lakehouse.settings import Settings
from lakehouse.storage.control.lease import is_held
from lakehouse.storage.heartbeats import served_by, service_heartbeat

log = logging.getLogger(__name__)
ALL_QUERIES = "all"
Kind = Literal["stream", "query"]


def chosen_streams(params: Mapping[str, Any], events: str = "") -> list[str]:
    """Return the declared streams that ``streams`` names: ``all``, or names with commas between.

    ``events``: names of assets with commas between; where there are any, only streams that they are of. Raises
    KeyError if a name is not declared, with those that are.
    """
    chosen, of = _streams(configured(params), params), _streams_of(events)
    return [name for name in chosen if name in of] if of else chosen


def chosen_queries(params: Mapping[str, Any], events: str = "") -> list[str]:
    """Return the registered queries that ``queries`` names and whose streams ``streams`` names.

    ``events``: names of assets with commas between; where there are any, only queries over a stream that one is of.
    Raises KeyError if a name is not registered, with those that are.
    """
    settings = configured(params)
    streams, of = set(_streams(settings, params)), _streams_of(events)
    asked = str(params.get("queries") or ALL_QUERIES)
    names = list(settings.registered) if asked == ALL_QUERIES else [name.strip() for name in asked.split(",")]
    over = {name: set(settings.query(name).streams) for name in names}
    return [name for name, read in over.items() if read <= streams and (not of or read & of)]


def begun_streams(params: Mapping[str, Any]) -> list[str]:
    """Return the chosen streams of which something has been ingested."""
    ledger = configured(params).layout.ledger
    return [name for name in chosen_streams(params) if ledger(name).exists()]


def begun_queries(params: Mapping[str, Any]) -> list[str]:
    """Return the chosen queries over streams of which something has been ingested."""
    settings = configured(params)
    over = {name: settings.query(name).streams for name in chosen_queries(params)}
    return [
        name for name, read in over.items() if any(settings.layout.ledger(stream).exists() for stream in read)
    ]


def without_read(params: Mapping[str, Any], streams: Sequence[str]) -> list[str]:
    """Return the streams that no other process reads now; what lands for the others is left to the next run."""
    layout = configured(params).layout
    read = {name for name in streams if is_held(layout, layout.raw(name))}
    for name in sorted(read):
        log.info("%s: another process ingests it now; what has landed since is left to the next run", name)
    return [name for name in streams if name not in read]


def unserved(params: Mapping[str, Any], kind: Kind, events: str = "") -> tuple[list[str], str | None]:
    """Return the streams or queries in ``streams`` that no service handles, and the service that handles the others.

    A query is left to the service if all its streams are.
    """
    settings = configured(params)
    of_kind = chosen_streams if kind == "stream" else chosen_queries
    chosen = of_kind(params, events)
    asked = {params.get(name) or ALL_STREAMS for name in ("streams", "queries")}
    if kind == "query" and asked == {ALL_STREAMS}:
        # The task of each query whose file is wrong fails with its message.
        chosen += settings.faulty
    who = served_by(settings.layout)
    heartbeat = service_heartbeat(settings.layout) if who else None
    if heartbeat is None:
        return chosen, None
    streams = set(heartbeat.get("streams", {}))
    if kind == "stream":
        return [name for name in chosen if name not in streams], who
    return [
        name
        for name in chosen
        if name in settings.faulty or not streams.issuperset(settings.query(name).streams)
    ], who


def _streams_of(events: str) -> set[str]:
    return {event.rpartition("/")[2] for event in events.split(",") if event}


def _streams(settings: Settings, params: Mapping[str, Any]) -> list[str]:
    asked = str(params.get("streams") or ALL_STREAMS)
    if asked == ALL_STREAMS:
        return list(settings.streams)
    return [settings.stream(name.strip()).name for name in asked.split(",")]
