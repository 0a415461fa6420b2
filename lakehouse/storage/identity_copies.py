"""Copies of the runs of the index of identities, for tasks on machines that do not share the home's folder.

    <tables>/identities/<stream>/<run>       a copy of each run beside the tables, where these are on a store
    <temporary folder of a worker>/...       what a worker has fetched of them, once

Runs are never changed, so that a copy is right as long as it is there.
"""

import hashlib
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from lakehouse.storage.identity_index import Run
from lakehouse.storage.ownership import is_own_folder
from lakehouse.storage.stores.store_path import StorePath


def copied(runs: Sequence[Run], folder: StorePath) -> list[Run]:
    """Return runs that are in a folder of a store, after those that are not there yet are copied to it.

    Copies of other runs are deleted. Cost: a listing, and the bytes of new runs.
    """
    there = {path.name for path in folder.glob("*")}
    for run in runs:
        if run.path.name not in there:
            (folder / run.path.name).upload(Path(run.path))
    for name in there - {run.path.name for run in runs}:
        (folder / name).unlink()
    return [replace(run, path=folder / run.path.name) for run in runs]


def fetched(runs: Sequence[Run]) -> list[Run]:
    """Return runs as files of this machine, as which those of a store are fetched; copies of no run are deleted.

    Disk: the bytes of the runs, for each worker's machine.
    """
    if not any(isinstance(run.path, StorePath) for run in runs):
        return list(runs)
    address = hashlib.sha256(str(runs[0].path.parent).encode()).hexdigest()[:32]
    root = Path(tempfile.gettempdir()) / f"tidemark-identities-{os.geteuid()}"
    folder = root / address
    # Whoever knows the name may have made it before.
    for each in (root, folder):
        each.mkdir(mode=0o700, exist_ok=True)
        if not is_own_folder(each):
            raise PermissionError(f"{each} is a link, or others can write to it: remove it")
    for run in runs:
        if isinstance(run.path, StorePath) and not (folder / run.path.name).exists():
            draft = folder / f".{run.path.name}.{os.getpid()}"
            run.path.download(draft, run.bytes)
            draft.replace(folder / run.path.name)
    for other in {path.name for path in folder.glob("[0-9]*")} - {run.path.name for run in runs}:
        with suppress(FileNotFoundError):
            (folder / other).unlink()
    return [replace(run, path=folder / run.path.name) for run in runs]
