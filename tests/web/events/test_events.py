from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from lakehouse.serving.publish.publish import publish
from lakehouse.web.security.tokens import Scope, add_token, revoke_token
from tests.serving.conftest import STREAMS
from tests.web.conftest import bare, published, served, wait_for


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


@pytest.mark.slow
def test_a_listener_whose_token_is_revoked_is_sent_away_and_others_stay(tmp_path: Path) -> None:
    home = published(tmp_path, "pair")
    tokens = {name: add_token(home, name, [Scope.READ], None) for name in ("gone", "kept")}
    ended = dict.fromkeys(tokens, False)
    with served(home) as address:

        def listen(name: str) -> None:
            given = {"Authorization": f"Bearer {tokens[name]}"}
            with (
                suppress(httpx.TransportError),
                httpx.stream("GET", f"{bare(address)}/events", headers=given) as found,
            ):
                for line in found.iter_lines():
                    heard.add(name if line else "")
                ended[name] = True

        heard: set[str] = set()
        for name in tokens:
            threading.Thread(target=listen, args=(name,), daemon=True).start()
        wait_for(lambda: heard >= set(tokens))
        revoke_token(home, "gone")

        wait_for(lambda: ended["gone"], 10)
        assert not ended["kept"]
