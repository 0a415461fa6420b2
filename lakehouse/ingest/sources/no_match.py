"""Contents of a landing folder in which no file is one that the source names."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

from lakehouse.config.landing import landing_folder
from lakehouse.config.store_address import address_of, is_remote
from lakehouse.config.stream import Source
from lakehouse.storage.stores.store_by_scheme import objects_of

_EXAMPLES = 3
_MOST = 1000


def no_match(source: Source) -> str:
    """Return a sentence that says that no file matches, and what the folder, or the nearest one that is there, holds.

    Raises:
        StoreUnavailable: when files are on a store that does not answer, or refuses.
    """
    begin = f"no file matches {source.path}; "
    if is_remote(source.path):
        return begin + _of_store(source)
    wanted = Path(landing_folder(source.path))
    folder = next(path for path in (wanted, *wanted.parents) if path.is_dir())
    missing = "" if folder == wanted else f"there is no folder {wanted}; "
    try:
        with os.scandir(folder) as entries:
            names = [each.name + ("/" if each.is_dir() else "") for each in islice(entries, _MOST)]
    except OSError as error:
        return f"{begin}{missing}{folder} cannot be listed: {error.strerror}"
    return f"{begin}{missing}{'the folder' if folder == wanted else folder} holds {_some(names)}"


def _of_store(source: Source) -> str:
    folder = address_of(landing_folder(source.path))
    found = objects_of(folder, source.endpoint).listed(folder, page=_MOST)
    names = [key.removeprefix(folder.key) for key, _ in islice(found, _MOST)]
    return f"{folder.url} holds {_some(names)}"


def _some(names: list[str]) -> str:
    """Return how many names there are, with the first of them."""
    if not names:
        return "nothing"
    count = f"{_MOST:,} or more" if len(names) >= _MOST else f"{len(names):,}"
    return (
        f"{count} {'entry' if len(names) == 1 else 'entries'}, such as {', '.join(sorted(names)[:_EXAMPLES])}"
    )
