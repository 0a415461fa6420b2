"""A real file system that is full, or read-only, while the jobs run: they may fail, nothing may be lost.

The home lies on a file system in memory, which only the superuser may make: elsewhere the part says so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.faults.lab import Lab, Verdict, labs_for
from tests.faults.report import Progress

# How much is left when the jobs begin, in bytes, or that nothing may be written.
CASES = ("read-only", "0", "20000", "60000", "100000", "200000", "400000", "800000")
QUICK = ("read-only", "60000")


def run(quick: bool, progress: Progress) -> dict[str, Any]:
    """Run the jobs on each of these file systems, then on one with room."""
    if os.geteuid():
        return {"tried": 0, "skipped": "only the superuser can make file systems", "broken": []}
    broken = []
    cases = QUICK if quick else CASES
    with labs_for(quick) as labs:
        for case, verdict in progress(labs.tried(judged, cases), len(cases)):
            broken += [f"{case}: {verdict}"] if verdict else []
    return {"tried": len(cases), "broken": sorted(broken)}


def judged(lab: Lab, case: str) -> Verdict:
    """Run the jobs where nothing, or only so much, can be written; say what the tables lack afterwards."""
    home = lab.config.parent / "var"
    kept = lab.folder / "home"
    shutil.rmtree(kept, ignore_errors=True)
    home.rename(kept)
    home.mkdir()
    _mount("-t", "tmpfs", "-o", "size=64m", "tidemark-faults", home)
    try:
        shutil.copytree(kept, home, dirs_exist_ok=True)
        filler = _fill(home, case)
        ended = lab.run(lambda number, what: None)
        _mount("-o", "remount,rw,size=64m", home)
        filler.unlink(missing_ok=True)
        if not ended.error:
            return "the jobs saw nothing of it" if case in ("read-only", "0") else lab.recovered()
        return lab.recovered()
    finally:
        subprocess.run(["umount", str(home)], check=True)


def _fill(home: Path, case: str) -> Path:
    """Fill the file system but for so many bytes, or let nobody write to it; return what fills it."""
    filler = home / "filler"
    if case == "read-only":
        _mount("-o", "remount,ro", home)
        return filler
    free = os.statvfs(home)
    with filler.open("wb") as file:
        file.truncate(0)
        os.posix_fallocate(file.fileno(), 0, max(free.f_bavail * free.f_frsize - int(case), 1))
    return filler


def _mount(*words: str | Path) -> None:
    subprocess.run(["mount", *map(str, words)], check=True)
