"""Lines into files that appear whole in a landing folder, each line safe on disk before anyone relies on it.

    <stream>-<time>.ndjson.part    grows; ``commit`` makes what is in it safe; readers of the folder pass it over
    <stream>-<time>.ndjson         landed: renamed when it is old or large enough, and never changed again

What a killed process left is taken over by the next: its last whole line is where the file ends, as anything after
that was never said to be safe. Names grow with time, so files are read in the order in which they were written.
"""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from lakehouse.storage.atomic_files import sync
from lakehouse.storage.crashpoint import crash_point

PART = ".part"


class Spool:
    """The files of one stream. One process at a time: whoever makes a Spool holds the folder's lease.

    Durability: after ``commit`` every line before it survives a crash of the process and of the machine. Cost of a
    commit: one write and one fsync.
    """

    def __init__(self, folder: Path, stream: str, roll_bytes: int, roll_after_us: int) -> None:
        """Take over what the process before left, and start with no file open."""
        self.folder, self.stream = folder, stream
        self.roll_bytes, self.roll_after_us = roll_bytes, roll_after_us
        self.files = 0
        self._file: int | None = None
        self._path = Path()
        self._opened_us = 0
        self._safe_bytes = 0
        self._lines: list[bytes] = []
        folder.mkdir(parents=True, exist_ok=True)
        self._take_over()

    @property
    def pending(self) -> int:
        """Number of lines that are not safe yet."""
        return len(self._lines)

    @property
    def waiting_bytes(self) -> int:
        """Number of bytes that are safe but have not landed."""
        return self._safe_bytes

    def append(self, line: bytes) -> None:
        """Add a line, with its end; it is held in memory until ``commit``."""
        self._lines.append(line)

    def commit(self, now_us: int) -> None:
        """Make all lines so far safe.

        Raises OSError when the disk takes no more; the lines since the last commit are then not in the file.
        """
        if not self._lines:
            return
        if self._file is None:
            self._open(now_us)
        assert self._file is not None
        content = memoryview(b"".join(self._lines))
        try:
            while content:
                content = content[os.write(self._file, content) :]
            crash_point("landing.written")
            os.fsync(self._file)
        except OSError:
            os.ftruncate(self._file, self._safe_bytes)
            raise
        self._safe_bytes = os.fstat(self._file).st_size
        self._lines = []
        crash_point("landing.safe")

    def roll_if_due(self, now_us: int) -> Path | None:
        """Land the file once it is large or old enough; return where, None when it is not."""
        is_due = self._safe_bytes >= self.roll_bytes or now_us - self._opened_us >= self.roll_after_us
        return self.roll() if self._file is not None and is_due else None

    def roll(self) -> Path | None:
        """Land what is safe; return where, None when there is nothing."""
        if self._file is None:
            return None
        os.close(self._file)
        self._file, self._safe_bytes = None, 0
        return self._land(self._path)

    def landed_lines(self) -> Iterator[bytes]:
        """Yield the lines that landed, newest first; one file at a time is in memory."""
        for path in sorted(self.folder.glob(f"{self.stream}-*.ndjson"), reverse=True):
            yield from reversed(path.read_bytes().splitlines(keepends=True))

    def _open(self, now_us: int) -> None:
        for path in self._names(now_us):
            if not path.exists() and not path.with_name(path.name + PART).exists():
                break
        self._path, self._opened_us, self._safe_bytes = path.with_name(path.name + PART), now_us, 0
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        sync(self.folder)

    def _names(self, now_us: int) -> Iterator[Path]:
        # A name that was used is in a manifest: under it nothing new would ever be read.
        while True:
            moment = datetime.fromtimestamp(now_us / 1e6, UTC).strftime("%Y%m%dT%H%M%S")
            yield self.folder / f"{self.stream}-{moment}.{now_us % 1_000_000:06d}Z.ndjson"
            now_us += 1

    def _take_over(self) -> None:
        for path in sorted(self.folder.glob(f"{self.stream}-*.ndjson{PART}")):
            content = path.read_bytes()
            whole = content.rfind(b"\n") + 1
            with path.open("r+b") as file:
                file.truncate(whole)
                os.fsync(file.fileno())
            if whole:
                self._land(path)
            else:
                path.unlink()

    def _land(self, part: Path) -> Path:
        landed = part.with_name(part.name.removesuffix(PART))
        part.rename(landed)
        crash_point("landing.landed")
        sync(self.folder)
        self.files += 1
        return landed
