"""What checks of a stream have passed, kept so that the next one reads what is new.

checked/<stream>.json    up to which batch, the sums of the ledger up to it, and what was measured of rollup files

It is no more than a memory: where the file is missing or is of another time, everything is checked again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lakehouse.home.atomic_files import write_text

COUNTS = ("received", "requeued", "accepted", "quarantined", "duplicates")


@dataclass(frozen=True)
class Checked:
    """Batches up to ``through`` have passed (-1: none); ``day`` is when everything was last checked, in UTC.

    ``totals``: sums of the ledger over them. ``files``: of each file of the rollup its metrics by level and grouping,
    measured under the ``definition``.
    """

    through: int = -1
    day: str = ""
    definition: str = ""
    totals: Mapping[str, int] = field(default_factory=dict)
    files: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)


def read_checked(path: Path, definition: str, day: str) -> Checked:
    """Return what has passed; nothing where everything is to be checked: on a new day, or under a new definition."""
    try:
        found = Checked(**json.loads(path.read_text("utf-8")))
    except (FileNotFoundError, ValueError, TypeError):
        return Checked()
    return found if (found.definition, found.day) == (definition, day) else Checked()


def write_checked(path: Path, checked: Checked) -> None:
    """Keep what has passed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(asdict(checked)))
