"""Failure that stops a query: the error of one of its operators, and its batch, until that batch is finished.

It is a row beside the query's manifests, which is deleted when the batch has run again with success.
"""

import json
from dataclasses import asdict, dataclass

from lakehouse.config.problems import Permanent
from lakehouse.queries.kind import Query, definition_of
from lakehouse.storage.control.manifests import Manifests, Row, remove
from lakehouse.storage.layout import Home
from lakehouse.storage.query_meaning import read_definition


class QueryFailed(Permanent, RuntimeError):
    """A query is stopped until the error that one of its operators raises has been corrected."""


@dataclass(frozen=True)
class Failure:
    """A batch of a query that could not be finished: the operator, its error, the place and the time.

    ``place``: the file and line of a predicate, or none if nothing of the operator's own was running.
    """

    batch: int
    operator: str
    error: str
    place: str | None
    at: str

    def __str__(self) -> str:
        place = f" ({self.place})" if self.place else ""
        return f"batch {self.batch}, at {self.operator}{place}: {self.error}"


def read_failure(layout: Home, query: str) -> Failure | None:
    """Return why a query is stopped, or None if it is not."""
    row = _of(layout, query).read(1)
    return Failure(**json.loads(row.body)) if row else None


def goes_on(layout: Home, query: Query) -> bool:
    """Return whether a query can run: it is not stopped, and means what its tables were made for."""
    meant = read_definition(layout.batch_manifests(query.name))
    return meant in (None, definition_of(query)) and read_failure(layout, query.name) is None


def write_failure(layout: Home, query: str, stopped: Failure) -> None:
    """Record why a query is stopped, replacing an earlier record."""
    _of(layout, query).put(Row(1, "stopped", json.dumps(asdict(stopped))))


def clear_failure(layout: Home, query: str) -> None:
    """Record that a query runs again."""
    if _of(layout, query).last():
        remove([_of(layout, query)])


def _of(layout: Home, query: str) -> Manifests:
    return Manifests(layout.batch_manifests(query), "stopped")
