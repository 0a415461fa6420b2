"""A few of some faults with every build, of the others with the long tests; guards that are switched off are missed."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

import pytest

from tests.faults.lab import shared_labs
from tests.faults.report import silent

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module", autouse=True)
def one_laboratory() -> Iterator[None]:
    with shared_labs(quick=True):
        yield


OTHERS = ("engine", "errors", "disk", "writers", "clocks", "readers", "topics", "sessions", "heap", "web")


@pytest.mark.parametrize(
    "part",
    [
        "kills",
        "damage",
        "sources",
        "interleavings",
        *(pytest.param(name, marks=pytest.mark.long) for name in OTHERS),
    ],
)
def test_nothing_breaks(part: str) -> None:
    found = import_module(f"tests.faults.{part}").run(True, silent)

    assert found["broken"] == []


def test_the_harness_tells_when_a_guard_is_switched_off() -> None:
    found = import_module("tests.faults.mutants").run(True, silent)

    assert found["caught"] == found["mutants"] == 1 and found["broken"] == []
