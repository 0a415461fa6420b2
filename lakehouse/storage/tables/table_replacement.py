"""A table made of other columns, properties and files in one version, as ``CREATE OR REPLACE TABLE`` does.

deltalake takes only properties of Delta's own where it replaces columns, and Spark writes log entries to a store
without asking whether there is one. So this entry is written here, as Delta's protocol has it: it removes every file,
names the new columns and properties, and adds the new files. It is written only where there is none.
"""

import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from lakehouse.storage.atomic_files import write_text
from lakehouse.storage.control.seal import fences, require_leases
from lakehouse.storage.crashpoint import crash_point
from lakehouse.storage.stores.store_path import Location, StorePath
from lakehouse.storage.tables.table_commits import MOST_TRIES, DataFile
from lakehouse.storage.tables.table_log import commit_at, read_log


class CommittedMeanwhile(RuntimeError):
    """Others committed to a table each time that it was to be replaced; nothing was."""


def replace_table(
    table: Location, schema: str, properties: Mapping[str, str], added: Sequence[DataFile]
) -> None:
    """Make a table, without partitions, of these columns, properties and files, whatever it holds, in one version.

    ``schema`` as Spark and Delta write it in JSON. What was there stays for readers of earlier versions, and numbers of
    writers stay. Whoever prepared a commit on an earlier version fails, as with any change of columns. Raises
    LeaseLost when another process has taken the lease meanwhile; what this rests on is read before that is asked, so
    a seal either comes later and fails, or this does (seal.py). Raises CommittedMeanwhile when others never stop to
    commit.
    """
    crash_point("table.files-written")
    # One table for all tries: the entry is known by it where the answer to a write was lost.
    made = str(uuid.uuid4())
    for _ in range(MOST_TRIES):
        if (log := read_log(table)) is None:
            raise FileNotFoundError(2, "No table", str(table))
        removed = {file.spelt: file.size for file in log.entries}
        require_leases()
        actions = _actions(table, made, schema, properties, added, removed)
        entry = "".join(f"{json.dumps(each)}\n" for each in actions)
        if _is_written(commit_at(table, log.version + 1), entry):
            return
    raise CommittedMeanwhile(f"{table}: others committed each time that it was to be replaced: run it again")


def _actions(
    table: Location,
    made: str,
    schema: str,
    properties: Mapping[str, str],
    added: Sequence[DataFile],
    removed: Mapping[str, int],
) -> Iterator[dict[str, Any]]:
    now = time.time_ns() // 1_000_000
    told = {"operation": "CREATE OR REPLACE TABLE", "operationParameters": {}, "isBlindAppend": False}
    yield {"commitInfo": {"timestamp": now, **told, **fences()}}
    yield {
        "metaData": {
            "id": made,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema,
            "partitionColumns": [],
            "configuration": dict(properties),
            "createdTime": now,
        }
    }
    for path, size in removed.items():
        gone = {"path": path, "deletionTimestamp": now, "dataChange": True, "size": size}
        yield {"remove": {**gone, "extendedFileMetadata": True, "partitionValues": {}}}
    for each in added:
        there: dict[str, Any] = {
            "path": quote(each.path.relative_to(table).as_posix()),
            "partitionValues": {},
        }
        there |= {"size": each.size, "modificationTime": now, "dataChange": True}
        yield {"add": {**there, "stats": json.dumps(each.statistics)}}


def _is_written(entry: Location, text: str) -> bool:
    try:
        if isinstance(entry, StorePath):
            entry.write_new(text.encode())
        else:
            write_text(entry, text, durable=True, is_new=True)
    except FileExistsError:
        return entry.read_text("utf-8") == text
    return True
