"""A few of each fault with every build: what breaks is named, and the guards, once switched off, are missed."""

from __future__ import annotations

from importlib import import_module

import pytest

from tests.faults.report import silent

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize("part", ["kills", "errors", "damage", "disk", "writers", "clocks", "readers"])
def test_nothing_breaks(part: str) -> None:
    found = import_module(f"tests.faults.{part}").run(True, silent)

    assert found["broken"] == []


def test_the_harness_tells_when_a_guard_is_switched_off() -> None:
    found = import_module("tests.faults.mutants").run(True, silent)

    assert found["caught"] == found["mutants"] == 1
