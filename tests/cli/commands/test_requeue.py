from __future__ import annotations

from tests.cli.conftest import Tidemark


def test_without_a_configuration_it_says_how_to_get_one(tidemark: Tidemark) -> None:
    ended = tidemark("requeue", "telemetry")

    assert ended.returncode == 2
    assert "`tidemark init` writes one" in ended.stderr


def test_an_undeclared_stream_is_refused_before_anything_starts(tidemark: Tidemark) -> None:
    tidemark("init")

    ended = tidemark("requeue", "rivers")

    assert ended.returncode == 2
    assert ended.stderr == "tidemark: no stream 'rivers'; declared: flows, telemetry\n"
