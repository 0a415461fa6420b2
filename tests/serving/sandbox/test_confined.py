"""A confined process tries what it must not be able to do, each in a process of its own kind: a real kernel answers."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from lakehouse.serving.sandbox.confined import _landlock_version

pytestmark = pytest.mark.skipif(_landlock_version() < 1, reason="this kernel has no Landlock")
ATTEMPTS = """
import json, os, signal, socket, subprocess, sys
from pathlib import Path
from lakehouse.serving.sandbox.confined import code_folders, confine

inside, outside, port = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
assert confine([*code_folders(), inside.parent])
attempts = {
    "read inside": lambda: inside.read_text(),
    "import": lambda: __import__("fractions"),
    "read outside": lambda: outside.read_text(),
    "list outside": lambda: os.listdir(outside.parent),
    "read passwords": lambda: Path("/etc/passwd").read_text(),
    "write": lambda: inside.write_text("x"),
    "write outside": lambda: outside.write_text("x"),
    "truncate": lambda: os.truncate(inside, 0),
    "delete": lambda: inside.unlink(),
    "rename": lambda: inside.rename(inside.with_name("other")),
    "link": lambda: os.symlink(outside, inside.with_name("link")),
    "make": lambda: inside.with_name("folder").mkdir(),
    "start a program": lambda: subprocess.run(["/bin/true"], check=True),
    "become root": lambda: subprocess.run(["su"], check=True),
    "connect": lambda: socket.create_connection(("127.0.0.1", port), 2),
    "listen": lambda: socket.create_server(("127.0.0.1", 0)),
    "signal": lambda: os.kill(os.getppid(), signal.SIGCONT),
}
for name, attempt in attempts.items():
    try:
        attempt()
    except PermissionError:
        attempts[name] = "refused"
    else:
        attempts[name] = "done"
print(json.dumps(attempts))
"""
REQUEST = {"sql": "SELECT count(*) AS n FROM numbers", "row_limit": 10, "timeout_s": 5, "memory_mb": 512}


def test_a_confined_process_reads_what_it_was_given_and_does_nothing_else(tmp_path: Path) -> None:
    inside, outside = tmp_path / "given" / "a", tmp_path / "other" / "b"
    for path in (inside, outside):
        path.parent.mkdir()
        path.write_text("secret")
    with socket.create_server(("127.0.0.1", 0)) as server:
        words = [sys.executable, "-c", ATTEMPTS, str(inside), str(outside), str(server.getsockname()[1])]
        told = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
    allowed = {name for name, answer in told.items() if answer == "done"}
    newer = {"connect", "listen"} if _landlock_version() < 4 else set()
    newer |= {"signal"} if _landlock_version() < 6 else set()
    assert allowed == {"read inside", "import"} | newer
    assert inside.read_text() == outside.read_text() == "secret"


@pytest.mark.parametrize("is_given", [True, False])
def test_the_worker_opens_no_file_that_is_not_beside_the_version(tmp_path: Path, is_given: bool) -> None:
    place = tmp_path / ("given" if is_given else "other")
    for folder in (tmp_path / "given", tmp_path / "other"):
        folder.mkdir(exist_ok=True)
    with duckdb.connect(str(place / "numbers.duckdb")) as connection:
        connection.execute("CREATE TABLE numbers AS FROM range(7)")
    path = tmp_path / "given" / "1.duckdb"
    path.symlink_to(place / "numbers.duckdb")
    asked = json.dumps({**REQUEST, "path": str(path)})
    words = [sys.executable, "-c", "from lakehouse.serving.sandbox.worker import main; main()"]
    done = subprocess.run(words, input=asked.encode(), capture_output=True)
    if is_given:
        assert json.loads(done.stdout)["rows"] == [[7]]
    else:
        assert done.returncode and b"Permission denied" in done.stderr
