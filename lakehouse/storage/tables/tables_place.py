"""Location of a home's tables: in its folder, or on an object store.

    <home>/tables.json    {"path"}: written with the first table on a store; whoever is given the home finds them by it

Leases, and whatever else belongs to a table and is none of its files, stay in the home, at the path that the table
would have there.
"""

from __future__ import annotations

import json
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from lakehouse.config.store_address import SCHEMES, address_of, is_remote
from lakehouse.storage.atomic_files import write_json
from lakehouse.storage.damaged import naming

if TYPE_CHECKING:
    from deltalake import DeltaTable

NAME = "tables.json"
# What a path makes of a URL's scheme.
_FIRST = tuple((f"{scheme}:",) for scheme in SCHEMES)
_CHOSEN: dict[Path, str] = {}
_HOMES: dict[Path, Path] = {}
_WRITING = Lock()


def use(root: Path, path: str | None) -> None:
    """Let this process find the tables of a home on a store, or where its folder says."""
    _CHOSEN.pop(root, None)
    if path is not None:
        _CHOSEN[root] = path


def recorded(root: Path) -> str | None:
    """Return on which store the tables of a home are, None for in its folder or for none yet.

    Raises:
        DamagedFile: when what the home says of it cannot be read.
    """
    try:
        with naming(root / NAME):
            return str(json.loads((root / NAME).read_text("utf-8"))["path"])
    except (FileNotFoundError, NotADirectoryError):
        return None


def moved_tables(root: Path, path: str | None) -> str | None:
    """Return where a home has its tables where that is not what its configuration says, None where all is well."""
    there = recorded(root)
    if there is not None:
        return None if there == path else there
    has_own = path is not None and any(root.glob("ledger/*/_delta_log"))
    return "no path" if has_own else None


def place_in(root: Path) -> Path:
    """Return below what the tables of a home are. Cost: a look for one file."""
    path = _CHOSEN.get(root) or recorded(root)
    if path is None:
        return root
    # Few homes have tables on a store.
    from lakehouse.storage.stores.store_path import StorePath

    place = StorePath(path)
    _HOMES[place] = root
    return place


def in_home(table: Path) -> Path:
    """Return where in the home a table is, or would be."""
    for place in table.parents if is_on_store(table) else ():
        if place in _HOMES:
            return _HOMES[place] / table.relative_to(place).as_posix()
    return table


def home_of(table: Path) -> Path:
    """Return the home of a table on a store that this process has asked for."""
    return next(_HOMES[place] for place in table.parents if place in _HOMES)


def place_at(text: str) -> Path:
    """Return a table, or a file of one, by its address: a path or a URL."""
    if not is_remote(text):
        return Path(text)
    from lakehouse.storage.stores.store_path import StorePath

    return StorePath(text)


def is_on_store(table: Path) -> bool:
    """True if a table, or a file of one, is on an object store."""
    return table.parts[:1] in _FIRST


def options_of(table: Path) -> dict[str, str] | None:
    """Return how deltalake reaches a table; None for one in a folder."""
    if not is_on_store(table):
        return None
    from lakehouse.storage.stores.store_access import engine_options

    return engine_options(address_of(str(table)))


def delta_table(table: Path) -> DeltaTable:
    """Return the newest version of a table, to be looked at.

    Raises:
        deltalake.exceptions.TableNotFoundError: when there is none.
    """
    from deltalake import DeltaTable

    return DeltaTable(str(table), storage_options=options_of(table))


def stores_used() -> set[str]:
    """Return the schemes of the stores of whose tables this process has asked for some."""
    return {place.parts[0].removesuffix(":") for place in _HOMES}


def record(table: Path) -> None:
    """Write into the home on which store its tables are, before there is a first one."""
    for place in table.parents if is_on_store(table) else ():
        if place in _HOMES:
            # Tables are created side by side.
            with _WRITING:
                if recorded(_HOMES[place]) is None:
                    write_json(_HOMES[place] / NAME, {"path": str(place)}, durable=True)
