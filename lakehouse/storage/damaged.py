"""A file of the home that is there and cannot be read, as a disk or a copy has lost a part of it."""

from collections.abc import Iterator
from contextlib import contextmanager

from lakehouse.config.problems import Permanent
from lakehouse.storage.stores.store_path import Location

RESTORE = "restore it from a copy of the home"


class DamagedFile(Permanent, ValueError):
    """A file is emptied, cut off or overwritten; the message names it and says what to do."""


@contextmanager
def naming(path: Location) -> Iterator[None]:
    """Let what cannot be read of a file end with an error that names it and says what to do.

    Raises DamagedFile in the place of errors about its content.
    """
    try:
        yield
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedFile(f"{path} is damaged ({type(error).__name__}: {error}): {RESTORE}") from error
