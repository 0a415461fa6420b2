"""State of a stream's passed checks, kept so that the next one reads what is new.

checked/<stream>.json           up to which batch, the sums of the ledger up to it, what was measured of rollup files
checked/<subject>.passed.json   which commits of its tables the last check passed, and the figures it returned

It is no more than a memory: where the file is missing or is of another time, everything is checked again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from lakehouse.storage.atomic_files import write_text

COUNTS = ("received", "requeued", "accepted", "quarantined", "duplicates")


@dataclass(frozen=True)
class Checked:
    """Batches up to ``through`` have passed (-1: none); ``day`` is when everything was last checked, in UTC.

    ``totals``: sums of the ledger over them. ``files``: of each file of the rollup its metrics by level and grouping,
    measured under the ``definition``. ``live``: one of these batches came within ``latest`` of its newest row.
    """

    through: int = -1
    day: str = ""
    definition: str = ""
    totals: Mapping[str, int] = field(default_factory=dict)
    files: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    live: bool = False


@dataclass(frozen=True)
class Passed:
    """A check of a stream or query that passed: on which day, under which rules, and the newest commit of each table.

    ``figures``: what the check returned.
    """

    day: str
    rules: str
    commits: Sequence[Sequence[int]]
    figures: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Return the check that passed last, None where none is known."""
        try:
            return cls(**json.loads(path.read_text("utf-8")))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def is_of(self, other: Passed) -> bool:
        """True if both checks are of the same day, rules and commits."""
        mine, others = ([list(commit) for commit in each.commits] for each in (self, other))
        return (self.day, self.rules, mine) == (other.day, other.rules, others)

    def write(self, path: Path) -> None:
        """Keep the check as the last that passed."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(asdict(self)))


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
