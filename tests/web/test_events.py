from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from lakehouse.serving.file.publish import publish
from tests.serving.conftest import STREAMS
from tests.web.conftest import published, served, wait_for


def _events(lines: Iterator[str]) -> Iterator[tuple[str, int]]:
    kind = ""
    for line in lines:
        name, _, value = line.partition(": ")
        if name == "event":
            kind = value
        elif name == "data":
            yield kind, json.loads(value)["version"]


@pytest.mark.slow
def test_each_published_version_is_told_once(tmp_path: Path) -> None:
    home = published(tmp_path, "pair")
    found: list[tuple[str, int]] = []
    with served(home) as address:

        def listen() -> None:
            with httpx.stream("GET", f"{address}/events", timeout=30) as response:
                for event in _events(response.iter_lines()):
                    found.append(event)
                    if len(found) == 2:
                        return

        listening = threading.Thread(target=listen)
        listening.start()
        wait_for(lambda: found)
        publish(home, [STREAMS["pair"].write(tmp_path / "b"), STREAMS["flat"].write(tmp_path / "c")])
        listening.join(timeout=20)

    assert found == [("version", 1), ("version", 2)]


@pytest.mark.slow
def test_a_pointer_that_cannot_be_read_ends_no_events(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home = published(tmp_path, "pair")
    pointer = home.serving / "current"
    pointer.rename(home.serving / "aside")
    pointer.mkdir()
    with served(home) as address:
        wait_for(lambda: "could not be looked at" in caplog.text)
        pointer.rmdir()
        (home.serving / "aside").rename(pointer)
        with httpx.stream("GET", f"{address}/events", timeout=30) as response:
            found = next(_events(response.iter_lines()))

    assert found == ("version", 1)
