"""Homes that earlier versions of Tidemark wrote: this one takes each on, to what its own home would hold.

    python -m tests.faults.upgrade FOLDER    make a home by the code that runs, and keep it in FOLDER

An archive is named after the day and the commit that wrote it. It holds tables, published versions and all else of a
home, and none of the files that were taken in.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from tests.faults import subject
from tests.faults.lab import Lab, Verdict, labs_for
from tests.faults.report import Progress
from tests.queries.multiway.streams import NAMES

HOMES = Path(__file__).parent / "homes"


def run(quick: bool, progress: Progress) -> dict[str, Any]:
    """Let the jobs take each home on."""
    kept, broken = sorted(HOMES.glob("*.tar.xz")), []
    with labs_for(quick) as labs:
        for home, verdict in progress(labs.tried(judged, kept), len(kept)):
            broken += [f"{home.name}: {verdict}"] if verdict else []
    return {"tried": len(kept), "broken": sorted(broken)}


def judged(lab: Lab, kept: Path) -> Verdict:
    """Run the jobs over a kept home; say in what its tables differ from those of a home of this version."""
    lab.restore()
    lake = lab.config.parent
    shutil.rmtree(lake / "var")
    for name in NAMES:
        for part in subject.TAKEN:
            (lake / "landing" / name / f"{part}.ndjson").unlink()
    with tarfile.open(kept) as archive:
        archive.extractall(lake, filter="data")
    return lab.recovered()


def keep(folder: Path) -> Path:
    """Make a home by the code that runs and keep it in a folder; return its archive."""
    command = ["git", "log", "-1", "--format=%cs-%h"]
    name = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    with tempfile.TemporaryDirectory() as made:
        subject.made(Path(made) / "lake")
        target = folder / f"{name}.tar.xz"
        with tarfile.open(target, "w:xz") as archive:
            archive.add(Path(made) / "lake" / "var", "var")
    return target


if __name__ == "__main__":
    print(keep(Path(sys.argv[1])))
