"""Test of a store for what commits rest on: of many that write one new object at once, exactly one succeeds.

Delta numbers versions by log entries, each written only where there is none. A store that looks first and writes then,
or that knows no ``If-None-Match``, lets two writers have the same version, and the rows of one are lost without a word.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from lakehouse.storage.stores.store_path import StorePath

WRITERS, ROUNDS = 16, 20


def winners(tables: StorePath, rounds: int = ROUNDS) -> list[int]:
    """Return how many of ``WRITERS`` have succeeded in each of some rounds; the objects are deleted again.

    Raises StoreUnavailable or ObjectUnread when the store does not answer, or does not let this process write there.
    """
    return list(_rounds(tables, rounds))


def _rounds(tables: StorePath, rounds: int) -> Iterator[int]:
    barrier = Barrier(WRITERS)
    with ThreadPoolExecutor(WRITERS) as pool:
        for _ in range(rounds):
            place = tables / f".tidemark-doctor-{os.urandom(8).hex()}"
            try:
                raced = [pool.submit(_is_written, place, number, barrier) for number in range(WRITERS)]
                yield sum(each.result() for each in raced)
            finally:
                place.unlink()


def _is_written(place: StorePath, number: int, barrier: Barrier) -> bool:
    """Write an object that should be new; return whether the store says that it was."""
    barrier.wait(60)
    try:
        place.write_new(f"{number}".encode())
    except FileExistsError:
        return False
    return True
