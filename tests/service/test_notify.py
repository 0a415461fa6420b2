from __future__ import annotations

import socket
from pathlib import Path

import pytest

from lakehouse.service.stopping import notify


@pytest.mark.parametrize("is_abstract", [False, True])
def test_systemd_hears_what_it_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_abstract: bool
) -> None:
    name = f"tidemark-{tmp_path.name}" if is_abstract else str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind("\0" + name if is_abstract else name)
        heard.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", "@" + name if is_abstract else name)
        notify("READY=1", "WATCHDOG=1")
        assert heard.recv(100) == b"READY=1\nWATCHDOG=1"


def test_where_nobody_listens_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    notify("READY=1")
