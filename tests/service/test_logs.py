from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lakehouse.service.logs import set_up
from lakehouse.settings import Settings

CONFIG = """
[streams.alpha]
event_time = { column = "ts", unit = "s" }
levels = ["1m forever"]
[streams.alpha.source]
kind = "kafka"
servers = ["127.0.0.1:1"]
topics = ["alpha"]
format = "ndjson"
options = { "sasl.password" = "${ALPHA_PASSWORD}", "ssl.key" = "${ALPHA_LONG}" }
"""


@pytest.fixture
def settings(lakehouse_of: Callable[[str], Settings], monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("ALPHA_PASSWORD", "sesame")
    monkeypatch.setenv("ALPHA_LONG", "sesame-and-more")
    monkeypatch.setenv("TIDEMARK_LINEAGE__API_KEY", "api-key-4711")
    return lakehouse_of(CONFIG)


@pytest.fixture(autouse=True)
def _loggers_put_back() -> Iterator[None]:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    root.handlers[:], root.level = before, level


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_line_is_one_json_object_with_every_field_given(settings: Settings) -> None:
    out = io.StringIO()
    set_up(settings, out, as_json=True)

    logging.getLogger("jobs.x").info("took\n%s rows", 7, extra={"job": "ingest", "figures": {"rows": 7}})

    (line,) = lines(out.getvalue())
    at = line.pop("at")
    assert at.endswith("Z") and len(at) == 24
    assert line == {
        "job": "ingest",
        "figures": {"rows": 7},
        "level": "INFO",
        "logger": "jobs.x",
        "message": "took\n7 rows",
    }


def test_an_error_brings_its_traceback(settings: Settings) -> None:
    out = io.StringIO()
    set_up(settings, out, as_json=True)
    try:
        raise ValueError("no")
    except ValueError:
        logging.getLogger().exception("failed")

    assert lines(out.getvalue())[0]["traceback"].endswith("ValueError: no")


@pytest.mark.parametrize("as_json", [True, False])
def test_secrets_of_the_environment_never_stand_in_a_line(settings: Settings, as_json: bool) -> None:
    out = io.StringIO()
    set_up(settings, out, as_json)

    logging.getLogger().warning(
        "%s refused", "sesame-and-more", extra={"key": "api-key-4711", "again": "sesame"}
    )
    try:
        raise ValueError("password=sesame")
    except ValueError:
        logging.getLogger().exception("failed")

    text = out.getvalue()
    assert "sesame" not in text and "4711" not in text
    assert "${ALPHA_LONG} refused" in text and "password=${ALPHA_PASSWORD}" in text


def test_the_environment_asks_for_json_too(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_LOG", "json")
    out = io.StringIO()
    set_up(settings, out)
    logging.getLogger().info("hello")

    assert lines(out.getvalue())[0]["message"] == "hello"
