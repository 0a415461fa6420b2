"""Filter of a process's system calls for the rest of its life (seccomp).

A filtered process starts no program and no other process, opens no socket of any kind, opens no file for writing,
changes none, nor its mode, owner, times or locks, and reaches no other process. Landlock (confined.py) says which
files are read, which no filter can: it sees a call's numbers, and of a path only its address.
"""

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

# Of each kind of machine: how Linux marks its calls, the number of seccomp itself, and its column in the list.
_MACHINES = {"x86_64": (0xC000003E, 317, 1), "aarch64": (0xC00000B7, 277, 2)}
# From here on all machines number calls alike. These came with Linux 5.1 and later: libraries do without them, and
# those that the next kernel brings are refused unseen.
_NEWER = 424
# Of those that are refused by what is asked: numbers as in the list, and which argument says it.
_OPEN, _OPENAT = (2, None, 1), (257, 56, 2)
_CLONE, _PRLIMIT = (56, 220, 0), (302, 261, 0)
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CLONE_THREAD = 0x00010000
# Instructions of the filter, and what it answers.
_LOAD, _IS, _AT_LEAST, _HAS, _ANSWER = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOWED, _KILLED, _FAILS = 0x7FFF0000, 0x80000000, 0x00050000
_REFUSED, _UNKNOWN = _FAILS | errno.EPERM, _FAILS | errno.ENOSYS
_NUMBER, _MACHINE, _ARGUMENTS = 0, 4, 16
_NO_NEW_PRIVILEGES, _SET_FILTER, _ALL_THREADS = 38, 1, 1


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def refuse_calls() -> bool:
    """Refuse all threads of this process, and what they start, the calls of the list from now on.

    A refused call fails with EPERM, or ENOSYS if it is newer than Linux 5.1. Returns False, and does nothing, on
    machines of another kind and where the kernel has no filters. Raises OSError when the kernel has them and refuses.
    """
    machine = _MACHINES.get(os.uname().machine) if sys.platform == "linux" else None
    # A process of 32 bits on such a machine numbers its calls otherwise.
    if machine is None or sys.maxsize < 2**32:
        return False
    no_new_privileges()
    made = _filter(*machine)
    program = _Program(len(made) // 8, made)
    call = ctypes.CDLL(None, use_errno=True).syscall
    answer = int(call(machine[1], _SET_FILTER, _ALL_THREADS, ctypes.byref(program)))
    if answer == 0:
        return True
    error = errno.ESRCH if answer > 0 else ctypes.get_errno()
    if error in (errno.ENOSYS, errno.EINVAL):
        return False
    raise OSError(error, f"seccomp: {os.strerror(error)}")


def no_new_privileges() -> None:
    """Let no program that this process starts have more rights than it has: set-uid bits count for nothing.

    Raises OSError when the kernel refuses.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "the kernel does not let a process give up new privileges")


@cache
def refused_calls() -> tuple[tuple[str, ...], ...]:
    """Return name and numbers of each call on the list."""
    lines = Path(__file__).with_name("refused_calls.txt").read_text(encoding="ascii").splitlines()
    return tuple(tuple(line.split()) for line in lines if line and not line.startswith("#"))


def _filter(mark: int, _seccomp: int, column: int) -> bytes:
    """Return the program that judges each call of a kind of machine."""
    made = [
        *(_does(_LOAD, _MACHINE), _does(_IS, mark, 1, 0), _does(_ANSWER, _KILLED)),
        *(_does(_LOAD, _NUMBER), _does(_AT_LEAST, _NEWER, 0, 1), _does(_ANSWER, _UNKNOWN)),
    ]
    for call in refused_calls():
        if call[column] != "-":
            made += [_does(_IS, int(call[column]), 0, 1), _does(_ANSWER, _REFUSED)]
    for call_numbers, test in (
        (_OPEN, _does(_HAS, _WRITES, 0, 1)),
        (_OPENAT, _does(_HAS, _WRITES, 0, 1)),
        (_CLONE, _does(_HAS, _CLONE_THREAD, 1, 0)),
        # 0 is the process itself.
        (_PRLIMIT, _does(_IS, 0, 1, 0)),
    ):
        made += _judged(call_numbers[column - 1], call_numbers[2], test)
    return b"".join([*made, _does(_ANSWER, _ALLOWED)])


def _judged(number: int | None, argument: int | None, test: bytes) -> Iterator[bytes]:
    """Yield what judges a call by an argument: ``test`` goes on where it is refused, else passes over one."""
    if number is not None and argument is not None:
        yield _does(_IS, number, 0, 4)
        yield _does(_LOAD, _ARGUMENTS + 8 * argument)
        yield test
        yield _does(_ANSWER, _REFUSED)
        yield _does(_ANSWER, _ALLOWED)


def _does(code: int, value: int, if_so: int = 0, if_not: int = 0) -> bytes:
    """Return one instruction: what it does, with which value, and how many instructions it passes over then."""
    return struct.pack("=HBBI", code, if_so, if_not, value)
