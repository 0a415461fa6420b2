"""Statements of other people that try to leave the sandbox, or eat memory or time: each is refused or stopped."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

from lakehouse.serving.publish.publish import publish
from lakehouse.serving.sandbox.sandbox import PublishedReader, SqlFailed, open_published, run_sql
from lakehouse.serving.versions.versions import segment_path
from lakehouse.storage.layout import Home
from tests.faults.report import Progress
from tests.serving.conftest import STREAMS
from tests.serving.sandbox.payloads import BOMBS, ESCAPES, SECRET, SEGMENT_ESCAPES

QUICK, TIMEOUT_S, MOST_S = 10, 5.0, 9.0


def run(quick: bool, progress: Progress) -> dict[str, Any]:
    """Try every statement over a published version beside which a secret lies."""
    payloads = [*ESCAPES, *SEGMENT_ESCAPES, *BOMBS]
    payloads = payloads[:: len(payloads) // QUICK] if quick else payloads
    with tempfile.TemporaryDirectory(prefix="tidemark-faults-") as name:
        folder, home = Path(name) / "outside", Path(name) / "home"
        folder.mkdir()
        (folder / "secret.csv").write_text(f"{SECRET}\n", encoding="ascii")
        (folder / "link.csv").symlink_to(folder / "secret.csv")
        with patch("lakehouse.serving.segments.merge.OWN_NODES", 1), patch.dict(os.environ, SECRET=SECRET):
            publish(Home(home), [STREAMS["pair"].write(Path(name) / "pair")])
            with open_published(home) as reader:
                tried = (_tried(reader, payload, folder) for payload in payloads)
                broken = [wrong for wrong in progress(tried, len(payloads)) if wrong]
    return {"tried": len(payloads), "broken": broken}


def _tried(reader: PublishedReader, payload: str, folder: Path) -> str:
    """Run a statement; say what is wrong: it was answered, it told the secret, changed a file or took too long."""
    segment = segment_path(reader.hold.path.parent, "00000001")
    places = {"secret": folder / "secret.csv", "folder": folder, "name": folder.name, "segment": segment}
    text = payload.format(**places)
    before, content, began = sorted(folder.iterdir()), segment.read_bytes(), time.monotonic()
    try:
        run_sql(reader, text, 10, TIMEOUT_S)
        return f"answered: {payload}"
    except SqlFailed as refused:
        if SECRET in str(refused):
            return f"told the secret: {payload}"
    if (sorted(folder.iterdir()), segment.read_bytes()) != (before, content):
        return f"changed a file: {payload}"
    return f"took too long: {payload}" if time.monotonic() - began > MOST_S else ""
