"""Database of the leases of a path of a home: the one that is configured, or none but the kernel's locks.

    <home>/control.json    {"id"}: written when a database first keeps the home's leases, whose names begin with it

From then on a process that is not told of the database is refused, since the kernel's locks would not exclude those of
other machines. Whoever gives the database up deletes that file while nothing runs.

Where tables are on a store, that file is on the store too, and machines that have nothing else in common are one home.
A home without a database leaves its mark there instead, ``owner.json``, and no other home without one writes there.
"""

import json
import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from lakehouse.config.problems import Permanent
from lakehouse.storage.atomic_files import write_json
from lakehouse.storage.control.session import Session
from lakehouse.storage.layout import Home
from lakehouse.storage.stores.store_path import Location, StorePath

NAME = "control.json"
VARIABLE = "TIDEMARK_CONTROL"
_OWNER = "owner.json"


class ControlNotNamed(Permanent, RuntimeError):
    """A database keeps the leases of this home, and this process was not told which."""


@dataclass(frozen=True)
class Place:
    """A path of a home whose leases a database keeps; ``id``, ``name``: of home and path, the same on all machines."""

    home: Home
    id: str
    name: str
    session: Session


def is_shared(home: Home) -> bool:
    """True if a database keeps the leases of a home. Cost: a look for one file."""
    return bool(home.control) or (home.root / NAME).exists()


def place_of(home: Home, path: Location) -> Place | None:
    """Return a path's place in a control store, None where the kernel's locks are the leases.

    Raises ControlNotNamed when a database keeps them and this process was not told which.
    """
    inside = home.folder_of(path)
    if not is_shared(home) or not inside.is_relative_to(home.root):
        return None
    url = home.control or os.environ.get(VARIABLE)
    if not url:
        raise ControlNotNamed(
            f"a database keeps the leases of {home.root} ({home.root / NAME}): give its URL as {VARIABLE}"
        )
    # Most homes have no database: what speaks to one is loaded here.
    from lakehouse.storage.control.session import session_of

    return Place(home, _id(home), inside.relative_to(home.root).as_posix(), session_of(url))


def _id(home: Home) -> str:
    """Return a home's identity, which the first process gives it."""
    path = home.root / NAME
    if store := home.on_store:
        return _id_on_store(home.root, store)
    if not path.exists():
        own = os.urandom(16).hex()
        draft = path.with_name(f".{NAME}.{own}")
        write_json(draft, {"id": own}, durable=True)
        # Whoever comes second takes what is there.
        with suppress(FileExistsError):
            os.link(draft, path)
        draft.unlink()
    return _told(path)


@lru_cache(16)
def _id_on_store(root: Path, tables: StorePath) -> str:
    own = _told(root / NAME) if (root / NAME).exists() else None
    found = _marked(tables / NAME, {"id": own or os.urandom(16).hex()})["id"]
    if own is None:
        write_json(root / NAME, {"id": found}, durable=True)
    elif own != found:
        raise ControlNotNamed(
            f"{root} is another home than the one that has its tables at {tables} ({NAME}): give this machine a folder "
            "of its own for that one"
        )
    return found


@lru_cache(16)
def require_own(root: Path, store: StorePath) -> None:
    """Make sure that a home without a database is the only one that writes to its store. Cost: two requests, once.

    Raises ControlNotNamed when there is another, or a database keeps their leases.
    """
    if (store / NAME).is_file():
        raise ControlNotNamed(f"a database keeps the leases of {store} ({NAME}): give its URL as {VARIABLE}")
    if not (root / _OWNER).exists():
        write_json(root / _OWNER, {"id": os.urandom(16).hex(), "host": socket.gethostname()}, durable=True)
    own = json.loads((root / _OWNER).read_text("utf-8"))
    found = _marked(store / _OWNER, own)
    if found != own:
        raise ControlNotNamed(
            f"a home on {found['host']} writes to {store}: name a database that both ask for leases ({VARIABLE})"
        )


def _marked(place: StorePath, mark: dict[str, str]) -> dict[str, str]:
    """Leave a mark where there is none; return what is there."""
    with suppress(FileExistsError):
        place.write_new(json.dumps(mark).encode())
    found: dict[str, str] = json.loads(place.read_bytes())
    return found


def _told(path: Path) -> str:
    return str(json.loads(path.read_text("utf-8"))["id"])
