"""Compiled kernels of a cluster's workers, kept by the archive's content, so that each is compiled once.

Numba keeps what it compiles by the path of the source. That of an archive is another one in each application of Spark,
so its own rule would compile everything again for each, which takes longer than most batches. Each version of the code
has a folder of its own; a version that is new to a worker removes those that none has used for ``KEPT_DAYS``.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from numba.core.caching import _CacheLocator

from lakehouse.storage.ownership import is_own_folder

KEPT_DAYS = 30
_ARCHIVE = re.compile(r".*/(tidemark-[0-9a-f]{16})\.zip/(.*)\.py")


class ArchivedKernels(_CacheLocator):
    """Kernels of one file of the archive: never stale, since their folder is named by the content."""

    def __init__(self, kernel: Any, folder: Path) -> None:
        self._line = str(kernel.__code__.co_firstlineno)
        self._folder = folder

    def get_cache_path(self) -> str:
        """Return the folder."""
        return str(self._folder)

    def get_source_stamp(self) -> str:
        """Return what changes with the source: nothing, as the folder does."""
        return self._folder.parent.name

    def get_disambiguator(self) -> str:
        """Return what tells kernels of one name apart."""
        return self._line

    @classmethod
    def from_function(cls, kernel: Any, source: str) -> ArchivedKernels | None:
        """Return where a kernel is kept; None where it does not come from the archive."""
        found = _ARCHIVE.fullmatch(source)
        if found is None:
            return None
        folder = _root() / found[1] / found[2].replace("/", ".")
        _begin(folder.parent)
        folder.mkdir(exist_ok=True)
        return cls(kernel, folder)


def _begin(version: Path) -> None:
    """Note that a version is used; where it is new, remove those that have not been for long."""
    if version.is_dir():
        os.utime(version)
        return
    version.mkdir(parents=True, exist_ok=True)
    for other in version.parent.glob("tidemark-*"):
        # Another worker may remove it meanwhile.
        with suppress(FileNotFoundError):
            if other.stat().st_mtime < time.time() - KEPT_DAYS * 86_400:
                # A process that still runs it compiles again what it needs, and makes the folder again.
                shutil.rmtree(other, ignore_errors=True)


@cache
def _root() -> Path:
    """Return a folder that only this user can write to: numba unpickles what it finds there.

    Where the user's cache is no such folder, this process has one of its own, and compiles everything once.
    """
    cache_home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    root = Path(cache_home, "tidemark", "kernels")
    with suppress(OSError):
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if is_own_folder(root) and os.access(root, os.W_OK):
            return root
    return Path(tempfile.mkdtemp(prefix="tidemark-kernels-"))
