"""Files of a home's tables that are not as the tables' logs say: gone, of another size, or no Parquet any more.

Whoever reads a table learns of a damaged file by what its library says, which often names neither the file nor a way
out. A job that failed therefore asks here. Cost: the logs, and a look at each live file's size and both of its ends.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from lakehouse.storage.control.outcomes import error_text
from lakehouse.storage.damaged import RESTORE, DamagedFile
from lakehouse.storage.layout import Home
from lakehouse.storage.stores.store_path import Location, StorePath
from lakehouse.storage.tables.table_log import read_log

_MAGIC, _LOG = b"PAR1", "_delta_log"
# Tables of streams, and of checks; every other one belongs to a registered query.
_OF_STREAMS = (
    "raw",
    "quarantine",
    "ledger",
    "corrections",
    "retracted",
    "revised",
    "remembered",
    "unchecked",
    "profile",
)
_OURS = ("jobs", "lakehouse", "quality")


def tables_of(home: Home) -> list[Location]:
    """Return every table that a home has."""
    kinds: list[Location] = list(home.tables.glob("*"))
    found = [*kinds, *(each for kind in kinds for each in kind.glob("*"))]
    return sorted((each for each in found if (each / _LOG).is_dir()), key=str)


def damage_in(tables: Iterable[Location]) -> Iterator[str]:
    """Yield a sentence for each file that is not as it was written: which, what is wrong, and what to do."""
    for table in tables:
        try:
            facts = read_log(table)
        except (OSError, ValueError, KeyError, TypeError) as error:
            yield str(error) if isinstance(error, DamagedFile) else f"{table}: {error}: {RESTORE}"
            continue
        for path, size in facts.files.items() if facts else ():
            if wrong := _wrong_with(path, size):
                yield f"{path} {wrong}: {_way_out(table)}"


def why_failed(error: Exception, tables: Iterable[Location]) -> Exception:
    """Return the damage that an error of a library came of, the error itself where the tables' files are whole."""
    is_damage = isinstance(error, DamagedFile)
    is_ours = type(error).__module__.partition(".")[0] in _OURS
    found = next(damage_in(tables), None) if is_damage or not is_ours else None
    if found is None:
        return error
    return DamagedFile(found if is_damage else f"{found} ({error_text(error)})")


@contextmanager
def naming_damage(home: Home) -> Iterator[None]:
    """Let errors that come of a damaged file of any table end as one that names it and says what to do.

    Raises DamagedFile in the place of such an error.
    """
    try:
        yield
    except Exception as error:
        why = why_failed(error, tables_of(home))
        if why is error:
            raise
        raise why from error


def _wrong_with(path: Location, size: int) -> str:
    try:
        begins, ends, there = _ends_of(path)
    except FileNotFoundError:
        return "is gone"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if there != size:
        return f"is damaged, {there:,} bytes of {size:,}"
    return "" if begins == ends == _MAGIC else "is damaged, no Parquet any more"


def _ends_of(path: Location) -> tuple[bytes, bytes, int]:
    """Return how a file begins and ends, and its size."""
    if isinstance(path, StorePath):
        return path.ends(len(_MAGIC))
    with path.open("rb") as file:
        begins = file.read(len(_MAGIC))
        there = file.seek(0, 2)
        file.seek(max(there - len(_MAGIC), 0))
        return begins, file.read(), there


def _way_out(table: Location) -> str:
    kind, name = table.parent.name, table.name
    if kind in _OF_STREAMS or name == "quality":
        return RESTORE
    if kind == "rollup":
        return f"{RESTORE}; where raw still has every row, remove {table}, and `tidemark run` builds it again"
    return f"{RESTORE}, or start over with `tidemark queries --forget {name}`"
