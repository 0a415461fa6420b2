"""Which database keeps the leases of a path of a home: the one that is configured, or none but the kernel's locks.

    <home>/control.json    {"id"}: written when a database first keeps the home's leases, whose names begin with it

From then on a process that is not told of the database is refused, since the kernel's locks would not exclude those of
other machines. Whoever gives the database up deletes that file while nothing runs.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.home.atomic_files import write_json
from lakehouse.home.tables_place import in_home

if TYPE_CHECKING:
    from lakehouse.home.control.session import Session

NAME = "control.json"
VARIABLE = "TIDEMARK_CONTROL"
_CHOSEN: dict[Path, str | None] = {}


class ControlNotNamed(RuntimeError):
    """A database keeps the leases of this home, and this process was not told which."""


@dataclass(frozen=True)
class Place:
    """A path of a home whose leases a database keeps; ``name``: the same on all machines."""

    root: Path
    home: str
    name: str
    session: Session


def use(root: Path, url: str | None) -> None:
    """Let this process find the leases of a home in a database, or as it is without a URL."""
    _CHOSEN[root] = url


def place_of(path: Path) -> Place | None:
    """Return a path's place in a control store, None where the kernel's locks are the leases.

    Raises:
        ControlNotNamed: when a database keeps them and this process was not told which.
    """
    for root in in_home(path).parents:
        url = _CHOSEN.get(root)
        if url or (root / NAME).exists():
            url = url or os.environ.get(VARIABLE)
            if not url:
                raise ControlNotNamed(
                    f"a database keeps the leases of {root} ({root / NAME}): give its URL as {VARIABLE}"
                )
            # Most homes have no database: what speaks to one is loaded here.
            from lakehouse.home.control.session import session_of

            return Place(root, _id(root), in_home(path).relative_to(root).as_posix(), session_of(url))
    return None


def _id(root: Path) -> str:
    """Return a home's identity, which the first process gives it."""
    path = root / NAME
    if not path.exists():
        own = os.urandom(16).hex()
        draft = root / f".{NAME}.{own}"
        write_json(draft, {"id": own}, durable=True)
        # Whoever comes second takes what is there.
        with suppress(FileExistsError):
            os.link(draft, path)
        draft.unlink()
    return str(json.loads(path.read_text("utf-8"))["id"])
