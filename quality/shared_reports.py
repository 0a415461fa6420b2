"""Results and pages of checks on the store that has the tables: what one machine judged, all of them show.

    <store>/reports/gx/expectations/, gx/uncommitted/validations/    suites and results
    <store>/reports/site/                                            their pages, and the index

Each machine copies what others wrote, since the index is made from all of it. Names of results and of their pages are
new each time. Cost of a check: a listing of what is kept, a read for each file of another machine since, a write for
each new file and for the index.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from lakehouse.storage.atomic_files import write_text
from lakehouse.storage.layout import Home
from lakehouse.storage.stores.store_path import StorePath

_COPIED = ("gx/expectations/", "gx/uncommitted/validations/", "site/expectations/", "site/validations/")
_INDEX = "site/index.html"
# How many objects are read or written together.
_TOGETHER = 16


@contextmanager
def shared_reports(layout: Home) -> Iterator[list[str]]:
    """Bring the results of other machines here, and what is new to the store afterwards; nothing without a store.

    What is added to the list, by its path below the reports, is deleted from the store. Raises StoreUnavailable or
    ObjectUnread when the store does not answer.
    """
    forgotten: list[str] = []
    if layout.on_store is None:
        yield forgotten
        return
    folder, store = layout.reports, layout.on_store / "reports"
    there = {path.relative_to(store).as_posix() for path in store.rglob("*")}
    _copy(folder, store, there)
    yield forgotten
    own = {path.relative_to(folder).as_posix() for path in folder.rglob("[!.]*") if path.is_file()}
    new = {name for name in own - there if name.startswith((*_COPIED, "site/"))}
    # The index comes last: it links what is there by then.
    _in_threads(lambda name: (store / name).upload(folder / name), new - {_INDEX})
    (store / _INDEX).upload(folder / _INDEX)
    _in_threads(lambda name: (store / name).unlink(), there.intersection(forgotten))


def _copy(folder: Path, store: StorePath, names: Iterable[str]) -> None:
    """Write the files that a folder lacks; one that another machine forgets meanwhile is passed over."""

    def copy(name: str) -> None:
        with suppress(FileNotFoundError):
            write_text(folder / name, (store / name).read_text("utf-8"))

    _in_threads(copy, (name for name in names if name.startswith(_COPIED) and not (folder / name).exists()))


def _in_threads(call: Callable[[str], None], names: Iterable[str]) -> None:
    with ThreadPoolExecutor(_TOGETHER) as pool:
        for _ in pool.map(call, names):
            pass
