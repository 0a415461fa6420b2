"""Isolation of workers on this machine from their driver, so that what they share by chance is noticed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
# The project's code, which workers get from the driver.
CODE = tuple(ROOT / name for name in ("lakehouse", "sql", "jobs", "quality", "dags", "infra", "tests"))
_HIDE = 'while [ "$1" != -- ]; do mount -t tmpfs none "$1"; shift; done; shift; exec "$@"'


def bare_python(folder: Path) -> Path:
    """Make a Python with the packages of this one, but not with the project; return the folder of its programs."""
    venv.create(folder, with_pip=False, symlinks=True)
    place = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder), "platbase": str(folder)}))
    # Lines of a .pth file are folders, whose own .pth files, such as that of the project, are not looked at.
    (place / "packages.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


def with_faults(folder: Path, fault: Path) -> Path:
    """Make such a Python that imports a file whenever it starts; return the folder of its programs."""
    programs = bare_python(folder)
    (place,) = folder.glob("lib/python*/site-packages")
    shutil.copy(fault, place)
    (place / "faults.pth").write_text(f"import {fault.stem}\n")
    return programs


def knows_the_project(python: Path) -> bool:
    """Return whether a Python finds the project by itself."""
    found = subprocess.run([python / "python3", "-c", "import lakehouse"], cwd="/", capture_output=True)
    return found.returncode == 0


def hiding(*folders: Path) -> Sequence[str]:
    """Return what to put a command behind so that it does not see folders; nothing where that is not allowed."""
    if sys.platform != "linux" or os.geteuid() or not shutil.which("unshare"):
        return ()
    around = ("unshare", "--mount", "sh", "-c", _HIDE, "sh", *map(str, folders), "--")
    works = subprocess.run([*around, "true"], capture_output=True).returncode == 0
    return around if works else ()
