"""Index of the ingest batches that may hold a repeat of a row: hashes of identities, searched without reading raw.

    identities/<stream>/<first>-<last>.<definition>    a run: the hashes of some batches, sorted, and the batch of each

A run is written once, under its own name, before its batch is finished; small runs are merged into larger ones, so that
their number grows with the logarithm of the rows, up to runs of ``LARGE`` hashes. It is a cache: what is missing is
read from raw again, and a hash whose row has left raw costs a search that finds nothing. Keyed by batches rather than
files, it stays right when files are merged. ``definition`` says which columns are hashed.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lakehouse.storage.atomic_files import replacing
from lakehouse.storage.stores.store_path import Location

Hashes = npt.NDArray[np.uint64]
Batches = npt.NDArray[np.uint32]
# Runs of that many hashes are merged no more; below it, as soon as there are ``FAN`` in a row of about one size.
LARGE = 4 * 1024 * 1024
FAN = 8
_HEAD = struct.Struct("<8sqqq")
_MAGIC = b"tidemrk1"
_ROW_BYTES = 12
# Of a long run so many numbers are made at a time.
_PIECE = 1024 * 1024


@dataclass(frozen=True)
class Run:
    """The identities of batches ``first`` to ``last``; their rows' event times are from ``low`` to ``high``."""

    path: Location
    first: int
    last: int
    low: int
    high: int
    count: int

    @property
    def bytes(self) -> int:
        """The size of the file."""
        return _HEAD.size + _ROW_BYTES * self.count

    @property
    def hashes(self) -> Hashes:
        """The hashes, sorted."""
        return np.asarray(self._mapped("<u8", 0), np.uint64)

    @property
    def batches(self) -> Batches:
        """The batch of each hash."""
        return np.asarray(self._mapped("<u4", 8 * self.count), np.uint32)

    def find(self, wanted: Hashes) -> tuple[Hashes, Batches]:
        """Return those of some hashes, sorted, that are here, once for each batch that has them."""
        start = np.searchsorted(self.hashes, wanted)
        count = np.searchsorted(self.hashes, wanted, "right") - start
        places = np.repeat(start - np.cumsum(count) + count, count) + np.arange(count.sum())
        return np.repeat(wanted, count), np.asarray(self.batches[places])

    def _mapped(self, kind: str, skipped: int) -> npt.NDArray[np.generic]:
        if not self.count:
            return np.empty(0, kind)
        return np.memmap(self.path, kind, "r", _HEAD.size + skipped, (self.count,))


class IdentityIndex:
    """The runs of one stream before a batch, as its identity is declared now; whoever adds holds the lease of raw."""

    def __init__(self, folder: Path, definition: str, before: int) -> None:
        self.folder = folder
        self._definition = definition
        self._before = before

    def runs(self) -> list[Run]:
        """Return the runs of batches before this one, in order; what others there are goes, as it says nothing.

        A run of this batch or a later one is of a batch that was never finished.
        """
        found: list[Run] = []
        for path in sorted(self.folder.glob("[0-9]*-*.*"), key=_widest_first):
            run = self._opened(path)
            if run is None or run.last >= self._before or (found and run.first <= found[-1].last):
                path.unlink()
            else:
                found.append(run)
        return found

    def missing(self) -> list[tuple[int, int]]:
        """Return the batches before this one, as first and last, of which nothing is known."""
        gaps, expected = [], 1
        for run in self.runs():
            gaps += [(expected, run.first - 1)] if run.first > expected else []
            expected = run.last + 1
        return gaps + ([(expected, self._before - 1)] if expected < self._before else [])

    def add(self, first: int, last: int, hashes: Hashes, batches: Batches, times: tuple[int, int]) -> None:
        """Add a run of batches of which nothing was known: earlier ones, or this one."""
        order = np.argsort(hashes, kind="stable")
        self._write(first, last, hashes[order], batches[order], times)

    def add_batch(self, batch: int, hashes: Iterable[Hashes], count: int, times: tuple[int, int]) -> None:
        """Add the run of this batch: its hashes, sorted, in pieces of which one is held at a time."""
        of_batch = (np.full(min(_PIECE, count - low), batch, np.uint32) for low in range(0, count, _PIECE))
        self._write_pieces(batch, batch, count, times, chain(hashes, of_batch))

    def forget(self, before_us: int, through: int) -> None:
        """Empty the runs whose rows have all left raw: those before an event time, of batches up to one."""
        for run in self.runs():
            if run.count and run.high < before_us and run.last <= through:
                self._write(run.first, run.last, run.hashes[:0], run.batches[:0], (run.low, run.high))

    def merge(self) -> None:
        """Merge the newest runs where there are many of one size; all of them are of finished batches."""
        runs = self.runs()
        for size in sorted({_size_class(run) for run in runs} - {_LARGEST}):
            tail = _tail(runs, size)
            if len(tail) >= FAN:
                hashes = np.concatenate([run.hashes for run in tail])
                batches = np.concatenate([run.batches for run in tail])
                times = min(run.low for run in tail), max(run.high for run in tail)
                self.add(tail[0].first, tail[-1].last, hashes, batches, times)
                for run in tail:
                    run.path.unlink()
                return

    def _write(self, first: int, last: int, hashes: Hashes, batches: Batches, times: tuple[int, int]) -> None:
        self._write_pieces(first, last, len(hashes), times, (hashes, batches))

    def _write_pieces(
        self, first: int, last: int, count: int, times: tuple[int, int], pieces: Iterable[Hashes | Batches]
    ) -> None:
        path = self.folder / f"{first:08d}-{last:08d}.{self._definition}"
        # On disk before it has its name: a run that lost its bytes to a power cut would let repeats through.
        with replacing(path, durable=True) as file:
            file.write(_HEAD.pack(_MAGIC, count, *times))
            for piece in pieces:
                file.write(np.ascontiguousarray(piece, piece.dtype.newbyteorder("<")).data)

    def _opened(self, path: Path) -> Run | None:
        """Return the run of a file; None for one of another definition, or not as it was written."""
        name, _, definition = path.name.partition(".")
        first, _, last = name.partition("-")
        with path.open("rb") as file:
            head = file.read(_HEAD.size)
        if definition != self._definition or len(head) < _HEAD.size:
            return None
        magic, count, low, high = _HEAD.unpack(head)
        if magic != _MAGIC or path.stat().st_size != _HEAD.size + _ROW_BYTES * count:
            return None
        return Run(path, int(first), int(last), low, high, count)


def find_in(runs: Iterable[Run], wanted: Hashes, low: int, high: int) -> tuple[Hashes, Batches]:
    """Return those of some hashes, sorted, that runs have whose rows may be between two event times."""
    found = [run.find(wanted) for run in runs if run.count and run.low <= high and run.high >= low]
    hashes = np.concatenate([hashes for hashes, _ in found] or [np.empty(0, np.uint64)])
    return hashes, np.concatenate([batches for _, batches in found] or [np.empty(0, np.uint32)])


def _widest_first(path: Path) -> tuple[int, int]:
    """Order runs by their first batch; of two that begin with the same one, the merged one comes first."""
    first, _, last = path.name.partition(".")[0].partition("-")
    return int(first), -int(last)


def _size_class(run: Run) -> int:
    """Return about the logarithm of a run's length to ``FAN``; small ones are of one class, large ones of another."""
    return _LARGEST if run.count >= LARGE else max(0, run.count // 1024).bit_length() // 3


_LARGEST = 99


def _tail(runs: Sequence[Run], size: int) -> list[Run]:
    """Return the newest runs, without a gap between them, none of which is of a larger class."""
    tail: list[Run] = []
    for run in reversed(runs):
        if _size_class(run) > size or (tail and run.last != tail[-1].first - 1):
            break
        tail.append(run)
    return tail[::-1]
