from __future__ import annotations

import pytest

from tests.cli.conftest import Tidemark


def test_without_a_configuration_it_says_how_to_get_one(tidemark: Tidemark) -> None:
    ended = tidemark("rebuild", "telemetry")

    assert ended.returncode == 2
    assert "`tidemark init` writes one" in ended.stderr


def test_an_undeclared_stream_is_refused_before_anything_starts(called: Tidemark) -> None:
    called("init")

    ended = called("rebuild", "rivers")

    assert ended.returncode == 2
    assert ended.stderr == "tidemark: no stream 'rivers'; declared: flows, telemetry\n"


@pytest.mark.slow
def test_a_range_that_ends_before_it_begins_is_refused(called: Tidemark) -> None:
    called("init")

    ended = called("rebuild", "telemetry", "--from", "2026-01-02", "--to", "2026-01-01")

    assert ended.returncode == 2
    assert "--from 2026-01-02 is not before --to 2026-01-01" in ended.stderr
