"""What a file's columns are, and how they differ from those of the files before it.

A source may gain, lose or retype a column at any time. The stream goes on: a column that is not declared is not read,
a value that no longer fits is rejected row by row. The ledger row of the batch names what changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

Columns = dict[str, str]
NULL = "null"
# A record may have any number of columns.
_TOLD = 50
_KINDS = {bool: "boolean", int: "number", float: "number", str: "string", list: "list", type(None): NULL}


def json_columns(lines: Iterable[str]) -> Columns:
    """Return the columns of JSON records: name, dotted where nested -> boolean, number, string, list or null.

    Lines that hold no object, or one too deep, are passed over; null gives way to any other. For the first lines of a
    file: it parses each of them.
    """
    found: Columns = {}
    for line in lines:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            _collect(record, "", found)
    return found


def schema_changes(
    name: str, before: Mapping[str, str], now: Mapping[str, str], seen: Iterable[str]
) -> list[str]:
    """Return what changed from the file before to this one, named ``name``, one text a column; of many the first.

    ``seen`` are the columns of all earlier files: one that comes back is no gain.
    """
    known = set(seen)
    changes = [f"{name}: gained {column}" for column in now if column not in known]
    changes += [f"{name}: lost {column}" for column in before if column not in now]
    changes += [
        f"{name}: {column} was {before[column]}, is {kind}"
        for column, kind in now.items()
        if before.get(column, kind) != kind and NULL not in (before[column], kind)
    ]
    more = len(changes) - _TOLD
    return changes if more <= 0 else [*changes[:_TOLD], f"{name}: {more} more columns changed"]


def _collect(record: dict[str, object], prefix: str, found: Columns) -> None:
    for key, value in record.items():
        if isinstance(value, dict):
            _collect(value, f"{prefix}{key}.", found)
        elif found.get(f"{prefix}{key}", NULL) == NULL:
            found[f"{prefix}{key}"] = _KINDS[type(value)]
