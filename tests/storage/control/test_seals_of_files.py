"""A writer of files that was paused past its lease, in the midst of a renaming: nothing that it wrote is ever read."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.queries.runtime.batch_manifest import BatchManifest, write_manifest
from lakehouse.serving.versions import versions
from lakehouse.storage.control.lease import lease
from lakehouse.storage.layout import Home
from tests.storage.control.postgres import Postgres

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
# Another machine, whose n-th file is about to get its name when it says so; it goes on when it hears a line.
WRITER = """
import os, sys
from pathlib import Path
from lakehouse.storage import atomic_files
from lakehouse.storage.control import session
from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.storage.control.lease import lease
from lakehouse.serving.versions import versions
from lakehouse.storage.layout import Home

session.SILENT_S, session._WORD_S = 1.5, 0.3
home, what, left = Home(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3])

def paused(event, _):
    global left
    if event in ("os.rename", "os.link"):
        left -= 1
        if left == 0:
            print("held", flush=True)
            sys.stdin.readline()

def publish():
    folder = home.serving
    with lease(home, folder), versions.publisher(home):
        for name in ("segments/.draft-00000002-machine", ".draft-00000002-machine"):
            (folder / name).write_text("paused")
        sys.addaudithook(paused)
        versions.place_segment(folder, "00000002", folder / "segments/.draft-00000002-machine")
        versions.place(folder, 2, folder / ".draft-00000002-machine", ["00000002"])
        versions.point_to(folder, 2)
        versions.collect(folder, 1)

def write():
    with lease(home, home.raw("s")):
        manifests = ManifestStore(home.manifests("s"))
        print("held", flush=True)
        sys.stdin.readline()
        manifests.add_requeue(("paused",))

try:
    publish() if what == "publish" else write()
    print("done", flush=True)
except Exception as error:
    print(type(error).__name__, error, flush=True)
"""


@pytest.fixture
def home(tmp_path: Path, server: Postgres) -> Home:
    """A home with one published version, whose leases are in the database."""
    root = tmp_path / "here"
    (root / "serving" / "segments").mkdir(parents=True)
    home = Home(root, control=server.url)
    with lease(home, home.serving):
        _publish(home, 1)
    with lease(home, home.raw("s")):
        pass
    return home


def _publish(home: Home, version: int) -> None:
    folder = home.serving
    with versions.publisher(home):
        number = f"{version:08d}"
        drafts = (folder / "segments" / f".draft-{number}-other", folder / f".draft-{number}-other")
        for draft in drafts:
            draft.write_text("successor")
        versions.place_segment(folder, number, drafts[0])
        versions.place(folder, version, drafts[1], [number])
        versions.point_to(folder, version)


def _paused(home: Home, server: Postgres, what: str, renaming: int) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", WRITER, str(home.root), what, str(renaming)]
    environment = os.environ | {"TIDEMARK_CONTROL": server.url, "PYTHONPATH": str(ROOT)}
    writer = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == "held\n"
    writer.send_signal(signal.SIGSTOP)
    return writer


def _went_on(writer: subprocess.Popen[str]) -> str:
    writer.send_signal(signal.SIGCONT)
    said, _ = writer.communicate("\n", timeout=60)
    return said


@pytest.mark.parametrize("renaming", [1, 3, 4], ids=["segment", "version", "pointer"])
def test_a_publisher_that_was_paused_changes_nothing_that_its_successor_published(
    home: Home, server: Postgres, renaming: int
) -> None:
    with _paused(home, server, "publish", renaming) as writer, lease(home, home.serving, timeout_s=30):
        for version in (2, 3):
            _publish(home, version)
        assert _went_on(writer).startswith("LeaseLost this process has lost its leases on serving")

    folder = home.serving
    assert versions.current_version(folder) == 3
    files = [path for version in (2, 3) for path in versions.files_of_version(folder, version)]
    assert [path.read_text() for path in files] == ["successor"] * 4


def test_a_manifest_of_a_writer_that_was_paused_is_not_written(home: Home, server: Postgres) -> None:
    manifests = ManifestStore(home.manifests("s"))
    with _paused(home, server, "manifest", 1) as writer, lease(home, home.raw("s"), timeout_s=30):
        # The successor has not come to this one yet.
        assert _went_on(writer).startswith("LeaseLost this process has lost its leases on raw/s")
        assert manifests.behind(0) == []
        manifests.add_requeue(("successor",))

    assert [each.reasons for each in ManifestStore(manifests.part).behind(0)] == [("successor",)]


def test_without_a_pause_all_of_it_is_written(home: Home, server: Postgres) -> None:
    started = time.monotonic()
    with _paused(home, server, "publish", 4) as writer:
        assert _went_on(writer) == "done\n", time.monotonic() - started

    assert versions.current_version(home.serving) == 2
    with lease(home, home.queries("q")):
        write_manifest(home.batch_manifests("q"), "batch", BatchManifest(1, ((0, 1),)))
        with pytest.raises(FileExistsError):
            write_manifest(home.batch_manifests("q"), "batch", BatchManifest(1, ((0, 2),)))
