"""Callers of lakehouse/algorithms: all of it runs in the product; methods that only judge it are in tests/oracles."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from lakehouse.algorithms.join_aggregate.choice import METHODS

ROOT = Path(__file__).parents[2]
PURE = ROOT / "lakehouse" / "algorithms"
_FILE = re.compile(r"`([\w/]+\.py)`")


def imported(path: Path) -> set[str]:
    """Return the modules of lakehouse.algorithms that a file imports."""
    froms = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
    return {
        name
        for node in froms
        if node.module
        for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
    }


@pytest.mark.slow
def test_every_method_has_a_caller_in_the_product() -> None:
    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path
        for path in PURE.rglob("*.py")
        if path.stem != "__init__"
    }
    product = [
        path
        for folder in ("lakehouse", "jobs", "quality", "infra", "sql")
        for path in (ROOT / folder).rglob("*.py")
        if not path.is_relative_to(PURE)
    ]
    waiting = {name for path in product for name in imported(path)} & set(modules)
    # These are loaded by name, when a query runs them.
    waiting |= {f"lakehouse.algorithms.join_aggregate.{name}" for name in METHODS}
    called = set[str]()
    while waiting:
        called |= waiting
        waiting = {name for each in waiting for name in imported(modules[each])} & set(modules) - called

    assert set(modules) - called == set()


def test_every_caller_and_yardstick_that_the_table_names_is_there() -> None:
    table = (PURE / "README.md").read_text().split("| Problem |")[1]
    cells = [row.split("|")[-2] for row in table.splitlines() if row.count("|") > 3]
    named = {name for cell in cells for name in _FILE.findall(cell) if "/" in name}
    folders = (ROOT / "lakehouse", ROOT / "tests" / "oracles")

    assert {name for name in named if not any((folder / name).is_file() for folder in folders)} == set()
