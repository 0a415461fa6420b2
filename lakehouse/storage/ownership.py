"""Permissions of a home: its owner alone reads what it holds.

Raw rows, keys and Airflow's passwords are in it. On a machine that others use too, folders are 0700 and files 0600.
"""

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lakehouse.storage.atomic_files import write_text

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def keep_private() -> None:
    """Let what this process and its children make from now on be its owner's alone: called where a process begins."""
    os.umask(_OTHERS)


@contextmanager
def kept_private() -> Iterator[None]:
    """Let what this process makes in this block, and what a process that it starts there ever makes, be its owner's."""
    before = os.umask(_OTHERS)
    try:
        yield
    finally:
        os.umask(before)


def is_private(home: Path) -> bool:
    """True if nobody but its owner, and root, gets below a folder."""
    return not home.stat().st_mode & _OTHERS


def is_own_folder(folder: Path) -> bool:
    """True if a folder is this user's, no link, and nobody else can write to it."""
    known = folder.lstat()
    is_closed = not known.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(known.st_mode) and known.st_uid == os.geteuid() and is_closed


def kept_secret(path: Path) -> str:
    """Return the random secret of a file that its owner alone reads, which is made where there is none."""
    if not path.exists():
        # Another process may have made it meanwhile; all use that one.
        with suppress(FileExistsError):
            write_text(path, secrets.token_hex(32), mode=0o600, is_new=True)
    return path.read_text(encoding="ascii")
