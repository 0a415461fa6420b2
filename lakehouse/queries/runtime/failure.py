"""Why a query stands still: what one of its operators raised, on which batch, until that batch is finished.

batch_manifests/<query>/stopped     one JSON object; it goes when the batch has been run again with success
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from lakehouse.home.atomic_files import write_json
from lakehouse.home.layout import Home


class QueryFailed(RuntimeError):
    """A query stands still until what one of its operators raises has been mended."""


@dataclass(frozen=True)
class Failure:
    """A batch of a query that could not be finished: which operator raised what, where, and when that was.

    ``place``: the file and line of a predicate, none where nothing of the operator's own was running.
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
    """Return why a query stands still, None where it does not."""
    path = layout.batch_manifests(query) / "stopped"
    return Failure(**json.loads(path.read_text("utf-8"))) if path.is_file() else None


def write_failure(layout: Home, query: str, stopped: Failure) -> None:
    """Note why a query stands still, in the place of what was noted before."""
    write_json(layout.batch_manifests(query) / "stopped", asdict(stopped))


def clear_failure(layout: Home, query: str) -> None:
    """Note that a query goes on."""
    (layout.batch_manifests(query) / "stopped").unlink(missing_ok=True)
