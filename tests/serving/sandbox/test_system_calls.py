"""A filtered process tries what it must not be able to do; the same attempts succeed in one that is not filtered."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse.serving.sandbox.system_calls import _CLONE, _MACHINES, _OPEN, _OPENAT, _PRLIMIT, refused_calls

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="filters of system calls are Linux's")
# Landlock knows nothing of what these do, or only in kernels that are newer than its first.
ATTEMPTS = """
import ctypes, errno, fcntl, json, os, resource, signal, socket, subprocess, sys, threading
from pathlib import Path
from lakehouse.serving.sandbox.system_calls import refuse_calls

folder, port, is_filtered = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "filtered"
file, parent = folder / "file", os.getppid()
started, opened, is_x86 = threading.Event(), file.open(), os.uname().machine == "x86_64"
before = threading.Thread(target=lambda: (started.wait(), tell("in a thread of before", write)))
before.start()

def write():
    file.write_text("x")

def fork():
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)

def thread():
    other = threading.Thread(target=lambda: None)
    other.start()
    other.join()

def unix():
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(str(folder / "socket"))

def udp():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(b"secret", ("127.0.0.1", port))

def raw_call(number, *words):
    answer = ctypes.CDLL(None, use_errno=True).syscall(number, *words)
    if answer < 0:
        raise OSError(ctypes.get_errno(), "")

attempts = {
    "read": file.read_text,
    "list": lambda: os.listdir(folder),
    "thread": thread,
    "own limits": lambda: resource.getrlimit(resource.RLIMIT_NOFILE),
    "fork": fork,
    "program": lambda: subprocess.run(["/bin/true"], check=True),
    "udp": udp,
    "unix": unix,
    "pair": socket.socketpair,
    "write": write,
    "append": lambda: file.open("a").close(),
    "by its old number": lambda: raw_call(2, os.fsencode(file), os.O_RDWR) if is_x86 else fork(),
    "truncate": lambda: os.truncate(file, 0),
    "mode": lambda: file.chmod(0o644),
    "owner": lambda: os.chown(file, os.getuid(), os.getgid()),
    "times": lambda: os.utime(file),
    "lock": lambda: fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB),
    "folder": lambda: (folder / "folder").mkdir(),
    "link": lambda: os.link(file, folder / "link"),
    "rename": lambda: (folder / "link").rename(folder / "other"),
    "delete": lambda: (folder / "other").unlink(),
    "limits of another": lambda: resource.prlimit(parent, resource.RLIMIT_CORE, (0, 0)),
    "priority of another": lambda: os.setpriority(os.PRIO_PROCESS, parent, os.getpriority(os.PRIO_PROCESS, parent)),
    "processors of another": lambda: os.sched_setaffinity(parent, os.sched_getaffinity(parent)),
    "signal": lambda: os.kill(parent, signal.SIGCONT),
    "newer": lambda: os.close(os.pidfd_open(os.getpid())),
    "memory as a file": lambda: os.close(os.memfd_create("name")),
}
told = {}

def tell(name, attempt):
    try:
        attempt()
        told[name] = "done"
    except OSError as error:
        told[name] = "refused" if error.errno in (errno.EPERM, errno.ENOSYS) else repr(error)

print(refuse_calls() if is_filtered else True, flush=True)
for name, attempt in attempts.items():
    tell(name, attempt)
started.set()
before.join()
print(json.dumps(told))
"""
HARMLESS = {"read", "list", "thread", "own limits"}


@linux_only
@pytest.mark.parametrize("is_filtered", [True, False])
def test_a_filtered_process_changes_nothing_and_reaches_nobody(tmp_path: Path, is_filtered: bool) -> None:
    (tmp_path / "file").write_text("secret")
    with (
        socket.socket(socket.AF_UNIX) as listening,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as heard,
    ):
        listening.bind(str(tmp_path / "socket"))
        listening.listen()
        heard.bind(("127.0.0.1", 0))
        words = [str(tmp_path), str(heard.getsockname()[1]), "filtered" if is_filtered else "free"]
        ran = subprocess.run(
            [sys.executable, "-c", ATTEMPTS, *words], check=True, capture_output=True, text=True
        )
    has_filters, told = ran.stdout.splitlines()
    if has_filters == "False":
        pytest.skip("this kernel has no filters of system calls")
    answers = json.loads(told)
    assert {name for name in HARMLESS if answers[name] != "done"} == set()
    others = {name: answer for name, answer in answers.items() if name not in HARMLESS}
    assert set(others.values()) == {"refused" if is_filtered else "done"}, others


@pytest.mark.parametrize(
    ("machine", "header"),
    [
        ("x86_64", "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
        ("aarch64", "/usr/include/asm-generic/unistd.h"),
    ],
)
def test_calls_have_the_numbers_of_the_kernel(machine: str, header: str) -> None:
    if not Path(header).exists():
        pytest.skip("the kernel's headers are not installed")
    column = _MACHINES[machine][2]
    numbers = {"open": _OPEN, "openat": _OPENAT, "clone": _CLONE, "prlimit64": _PRLIMIT}
    ours = {name: call[column - 1] for name, call in numbers.items()}
    ours |= {call[0]: int(call[column]) if call[column] != "-" else None for call in refused_calls()}
    text = Path(header).read_text(encoding="utf-8")
    theirs = {name: int(number) for name, number in re.findall(r"__NR(?:3264)?_(\w+)\s+(\d+)", text)}

    assert ours == {name: theirs.get(name) for name in ours}
