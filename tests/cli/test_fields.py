"""Descriptions of columns and fields: each of a table and of ``--json`` output has one, beside the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from lakehouse.home_checks import Finding
from lakehouse.service.tasks import Tally
from lakehouse.simulator.truth import Truth
from lakehouse.storage.tables.schema_change import SchemaChange

ROOT = Path(__file__).parents[2]
DESCRIPTIONS = ROOT / "lakehouse" / "cli" / "fields.md"
STATEMENTS = sorted(
    str(path.relative_to(ROOT))
    for folder in ("tables", "serving")
    for path in (ROOT / "sql" / folder).glob("*.sql")
)
# Modules whose dictionaries are printed by ``--json``, on their own or as parts of others.
PATTERNS = (
    "jobs/**/*.py",
    "lakehouse/cli/commands/**/*.py",
    "lakehouse/corrections/re*.py",
    "lakehouse/ingest/identities/remembered.py",
    "lakehouse/ingest/quarantine.py",
    "lakehouse/queries/*/completeness.py",
    "lakehouse/queries/*/live_answers.py",
    "lakehouse/queries/*/state.py",
    "lakehouse/queries/runtime/operators.py",
    "lakehouse/service/freshness.py",
    "lakehouse/service/tasks.py",
    "lakehouse/serving/quality/[rv]*.py",
    "lakehouse/serving/status.py",
    "lakehouse/serving/storage_plan.py",
    "lakehouse/storage/control/outcomes.py",
    "lakehouse/storage/heartbeats.py",
    "lakehouse/storage/tables/table_maintenance.py",
)
PRINTED = {
    pattern: sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(pattern)) for pattern in PATTERNS
}
# Names of options of Delta's own, and of statistics that never leave a function.
NOT_PRINTED = {"maxFileSize", "minFileSize", "maxThreads", "boolean", "double", "int", "string"}


def _described() -> set[str]:
    return set(re.findall(r"^- `(\w+)`: \S", DESCRIPTIONS.read_text(encoding="utf-8"), flags=re.MULTILINE))


def _columns(statement: str) -> Iterator[str]:
    """Return the columns of the tables that a file of SQL creates."""
    plain = re.sub(r"'(?:[^']|'')*'|--[^\n]*|\{\w+\}", "", statement)
    for _, _, rest in (part.partition("(") for part in re.split(r"\bCREATE TABLE\b", plain)[1:]):
        depth, column = 1, ""
        for sign in rest:
            depth += (sign in "([<") - (sign in ")]>")
            if depth == 0 or (depth == 1 and sign == ","):
                yield from re.findall(r'^\s*"?(\w+)"?\s+\w', column)
                column = ""
            else:
                column += sign
            if depth == 0:
                break


def _fields(path: Path) -> Iterator[str]:
    """Return the keys that a module gives to dictionaries."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        keys = node.keys if isinstance(node, ast.Dict) else []
        if isinstance(node, ast.Assign):
            keys = [target.slice for target in node.targets if isinstance(target, ast.Subscript)]
        for key in keys:
            if isinstance(key, ast.Constant) and isinstance(key.value, str) and key.value.isidentifier():
                yield key.value


def test_every_pattern_names_modules() -> None:
    assert [pattern for pattern, names in PRINTED.items() if not names] == []


def test_every_column_has_a_description() -> None:
    described = _described()
    found = {
        name: set(_columns((ROOT / name).read_text(encoding="utf-8"))) - described for name in STATEMENTS
    }
    missing = {name: columns for name, columns in found.items() if columns}

    assert not missing, f"lakehouse/cli/fields.md lacks these columns: {missing}"


def test_every_field_of_json_has_a_description() -> None:
    described = _described() | NOT_PRINTED
    modules = {name for names in PRINTED.values() for name in names}
    found = {name: set(_fields(ROOT / name)) - described for name in modules}
    missing = {name: fields for name, fields in found.items() if fields}

    assert not missing, f"lakehouse/cli/fields.md lacks these fields: {missing}"


@pytest.mark.parametrize("printed", [Finding, SchemaChange, Tally, Truth])
def test_every_field_of_a_printed_class_has_a_description(printed: type) -> None:
    missing = {each.name for each in fields(printed)} - _described()

    assert not missing, (
        f"lakehouse/cli/fields.md lacks fields of {printed.__name__}: {', '.join(sorted(missing))}"
    )


def test_descriptions_stand_in_order_each_once() -> None:
    words = re.findall(r"^- `(\w+)`", DESCRIPTIONS.read_text(encoding="utf-8"), flags=re.MULTILINE)

    assert words == sorted(set(words))
