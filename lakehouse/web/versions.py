"""Published versions that are open for questions: a few at a time, each with one reader per thread that works.

Opening a version costs some 40 ms, a question a few: so versions stay open between questions, the least recently
asked are closed first, and a version that is open is not removed by a publisher. ``Versions`` is for many threads.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from lakehouse.serving.sandbox.sandbox import PublishedReader, open_published
from lakehouse.serving.versions.downloads import hold_downloaded, look
from lakehouse.serving.versions.versions import NotPublished, current_version
from lakehouse.storage.layout import Home

# Each open version holds its file's footer and up to 512 MB while it works.
MOST_OPEN = 3
# A store is asked so seldom what is published: each look is a request.
_LOOK_S = 1.0


@dataclass
class _OpenVersion:
    """A version, its idle readers, and how many questions it is answering."""

    first: PublishedReader
    idle: list[PublishedReader] = field(default_factory=list)
    asked: int = 0

    def close(self) -> None:
        for reader in self.idle:
            reader.connection.close()
        self.first.close()


class Versions:
    """The versions of a home; close it when nothing asks any more."""

    def __init__(self, layout: Home) -> None:
        self._layout = layout
        self._open: OrderedDict[int, _OpenVersion] = OrderedDict()
        self._lock = threading.Lock()
        self._look_at = 0.0

    def look(self) -> int:
        """Return the number of the current version, after what is published elsewhere was downloaded.

        Raises NotPublished before the first publish; StoreUnavailable or ObjectUnread when there is none here, and
        the store does not give it.
        """
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + _LOOK_S
            look(self._layout)
        return self.current()

    def current(self) -> int:
        """Return the number of the current version that is here: one small file is read.

        Raises NotPublished before the first publish.
        """
        version = current_version(self._layout.serving)
        if version is None:
            raise NotPublished(self._layout.serving)
        return version

    @contextmanager
    def reader(self, version: int) -> Iterator[PublishedReader]:
        """Give this thread a reader of a version. Raises VersionGone when it is not kept."""
        if version not in self._open:
            # One that has to be fetched first must not hold up questions about others.
            hold_downloaded(self._layout, version).close()
        with self._lock:
            if version not in self._open:
                self._open[version] = _OpenVersion(open_published(self._layout, version))
            self._open.move_to_end(version)
            found = self._open[version]
            found.asked += 1
            reader = found.idle.pop() if found.idle else found.first.another()
        try:
            yield reader
        finally:
            with self._lock:
                found.asked -= 1
                found.idle.append(reader)
                self._shut()

    def _shut(self) -> None:
        """Close versions that nobody asks, the least recently asked first, until few are open."""
        for version in [version for version, found in self._open.items() if not found.asked]:
            if len(self._open) <= MOST_OPEN:
                return
            self._open.pop(version).close()

    def close(self) -> None:
        """Close every version."""
        with self._lock:
            while self._open:
                self._open.popitem()[1].close()
