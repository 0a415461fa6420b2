"""Confinement of a process for the rest of its life by Landlock, which Linux has since 5.13.

A confined process reads below the folders it was given and nowhere else. It writes, makes, cuts and deletes no file,
and starts no program; where the kernel is new enough it opens no TCP connection and signals nobody either. What
Landlock knows nothing of, as UDP and the modes of files, is refused by a filter of system calls (system_calls.py).
"""

import ctypes
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from lakehouse.serving.sandbox.system_calls import no_new_privileges

# System calls, which have the same numbers on all kinds of machine.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION, _PATH_BENEATH = 1, 1
_READ = 1 << 2 | 1 << 3
# How many rights on files each version of Landlock knows, the newest for all that follow; they are bits from 0 on.
_RIGHTS = (0, 13, 14, 15, 15, 16)
_TCP, _TCP_SINCE = 1 << 0 | 1 << 1, 4
_SIGNALS, _SIGNALS_SINCE = 1 << 0 | 1 << 1, 6
# DuckDB asks the last two for the limits of its group, and dies where it cannot open them.
_SYSTEM = ("/usr", "/lib", "/lib64", "/proc/self", "/sys/fs/cgroup")


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scope", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def confine(folders: Iterable[Path]) -> bool:
    """Let this thread, and all that it starts from now on, read below some folders and do nothing else to files.

    Returns False, and does nothing, where the kernel has no Landlock. Raises OSError when the kernel has it and
    refuses.
    """
    version = _landlock_version()
    if version < 1:
        return False
    rules = _Ruleset(
        (1 << _RIGHTS[min(version, len(_RIGHTS) - 1)]) - 1,
        _TCP if version >= _TCP_SINCE else 0,
        _SIGNALS if version >= _SIGNALS_SINCE else 0,
    )
    # An older kernel takes no more of this than it knows.
    size = 8 if version < _TCP_SINCE else 16 if version < _SIGNALS_SINCE else 24
    ruleset = _called(_CREATE_RULESET, ctypes.byref(rules), size, 0)
    try:
        for folder in folders:
            _allow(ruleset, folder)
        no_new_privileges()
        _called(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    return True


def code_folders() -> list[Path]:
    """Return where Python, its packages, the system's libraries and the limits of this process are."""
    known = [Path(sys.prefix), Path(sys.base_prefix), *map(Path, _SYSTEM)]
    return [folder for folder in known if folder.is_dir()]


def _landlock_version() -> int:
    if sys.platform != "linux":
        return 0
    return int(ctypes.CDLL(None).syscall(_CREATE_RULESET, None, 0, _VERSION))


def _allow(ruleset: int, folder: Path) -> None:
    opened = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        _called(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(_PathBeneath(_READ, opened)), 0)
    finally:
        os.close(opened)


def _called(number: int, *words: object) -> int:
    answer = int(ctypes.CDLL(None, use_errno=True).syscall(number, *words))
    if answer < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"Landlock: {os.strerror(error)}")
    return answer
