"""Seals against a writer that was paused and lost its lease: its successor seals what it wrote.

A seal is a commit that changes a table's properties. Delta's rules refuse every commit that was prepared on an earlier
version, by whatever engine. A writer reads the version that its commit is prepared on first, and asks whether it holds
its lease then (``require_leases``). If it does, a successor can only come later, and so does its seal. So of a writer
that was paused, either the question or the commit fails, and nothing that it writes is ever read.

A lease that was given back needs none: seals are made after deaths, lost sessions and killed databases only.

A file that is no table's (a published version, the pointer) is sealed likewise: its writer has a draft of it first,
then asks, then gives the draft its name, and a successor deletes drafts before it writes. So either the question fails,
or there is no draft to be renamed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lakehouse.storage.atomic_files import replacing
from lakehouse.storage.control.place import Place
from lakehouse.storage.control.session import sessions
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.tables_place import delta_table

# The property that a seal changes.
PROPERTY = "tidemark.sealed"
_FILES = ".files"
# Others may commit to the table at the time.
_TRIES = 100


def require_leases() -> None:
    """Make sure that this process still has the leases that databases gave it; those of the kernel it cannot lose.

    Raises LeaseLost when it has not.
    """
    for session in sessions():
        session.require()


@contextmanager
def naming_drafts() -> Iterator[None]:
    """Let drafts get their names in the block, unless a successor has taken the lease; they are there already.

    Raises LeaseLost when it has, before the block or after its drafts were deleted.
    """
    require_leases()
    try:
        yield
    except FileNotFoundError:
        require_leases()
        raise


def write_sealed(path: Path, text: str) -> None:
    """Replace a file durably, unless a successor has the lease.

    Raises LeaseLost when it has; what it has written stays.
    """
    try:
        with replacing(path, durable=True) as file:
            file.write(text.encode("utf-8"))
            require_leases()
    except FileNotFoundError:
        require_leases()
        raise


def fences() -> dict[str, str]:
    """Return what a commit says of the leases that its process holds: the number of each."""
    held = sorted((name, fence) for session in sessions() for (_, name), fence in session.held.items())
    told = ", ".join(f"{name} {fence}" for name, fence in held)
    return {"tidemark.fence": told} if told else {}


def seal_tables(place: Place, fence: int) -> list[Location]:
    """Seal every table that the holder of a lease may have written; return them.

    Those are of the same stream or query. Others that write them meanwhile must try again.
    """
    from deltalake import CommitProperties

    own = place.name.removesuffix(_FILES)
    tables = place.home.tables
    kinds = sorted(each.name for each in tables.iterdir()) if "/" in own else ()
    folders = [tables / kind / own.rpartition("/")[2] for kind in kinds] or [tables / own]
    sealed = [folder for folder in folders if (folder / "_delta_log").is_dir()]
    told = {PROPERTY: f"{place.name} {fence}"}
    for table in sealed:
        known = delta_table(table)
        properties = CommitProperties({"tidemark.fence": told[PROPERTY]}, _TRIES)
        known.alter.set_table_properties(told, raise_if_not_exists=False, commit_properties=properties)
    return sealed
