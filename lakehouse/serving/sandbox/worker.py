"""The process that runs one statement of somebody else: limits first, then DuckDB, then the statement.

Reads one request as JSON from its input, writes one answer as JSON, ends. The kernel keeps it to a few gigabytes of
address space, the CPU time of its timeout on every thread, where it has Landlock to reading the version and the code
(confined.py), and to few system calls: no file is written, deleted or given another mode, no program or process
started, no socket opened (system_calls.py).
"""

import datetime
import importlib
import json
import math
import os
import resource
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from lakehouse.serving.sandbox.confined import code_folders, confine
from lakehouse.serving.sandbox.limits import MEMORY_MB
from lakehouse.serving.sandbox.system_calls import refuse_calls, refused_calls

# Address space beside DuckDB's own limit: code, thread stacks and what it does not count.
OWN_SPACE_MB = 2_560
THREADS = 2
# A version has a file, and some hundreds of segments at most.
OPEN_FILES = 1024
LARGEST_ANSWER = 64 * 1024**2


def main() -> None:
    """Answer the request on standard input."""
    request = json.loads(sys.stdin.buffer.read())
    answers = _own_output()
    _load_code()
    _limit(float(request["timeout_s"]), request["memory_mb"])
    confine([*code_folders(), Path(request["path"]).parent])
    refuse_calls()
    try:
        answer = answer_to(
            Path(request["path"]),
            request["sql"],
            request["row_limit"],
            request["timeout_s"],
            memory_mb=request["memory_mb"],
        )
    except MemoryError:
        answer = {"error": "stopped: the statement needs more memory than it may have"}
    written = json.dumps(answer)
    if len(written) > LARGEST_ANSWER:
        written = json.dumps(
            {"error": f"the answer is larger than {LARGEST_ANSWER // 1024**2} MB: ask for less"}
        )
    with answers:
        answers.write(written)


def _own_output() -> TextIO:
    """Return the output for the answer alone: what a library prints, as DuckDB its progress, goes nowhere."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    return answers


def _load_code() -> None:
    """Load what an answer needs of this project; its folder is not readable later, since a home may be below it."""
    from lakehouse.serving.sandbox.guard import allowed_functions

    importlib.import_module("lakehouse.serving.sandbox.locked")
    allowed_functions()
    refused_calls()


def _limit(timeout_s: float, memory_mb: int) -> None:
    seconds = math.ceil(timeout_s + 2) * THREADS
    for what, most in (
        (resource.RLIMIT_AS, (OWN_SPACE_MB + memory_mb) * 1024**2),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
    ):
        hard = resource.getrlimit(what)[1]
        limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (limit, limit))


def answer_to(
    path: Path,
    text: str,
    row_limit: int,
    timeout_s: float,
    threads: int = THREADS,
    memory_mb: int = MEMORY_MB,
) -> dict[str, Any]:
    """Return columns, types, rows and whether there were more; or ``error``."""
    import duckdb

    from lakehouse.serving.sandbox.guard import StatementRefused, check_statement
    from lakehouse.serving.sandbox.locked import connect_locked

    connection = connect_locked(path, threads, f"{memory_mb}MB")
    timer = threading.Timer(timeout_s, connection.interrupt)
    timer.daemon = True
    timer.start()
    try:
        check_statement(connection, text)
        return _rows(connection.execute(text), row_limit)
    except StatementRefused as refused:
        return {"error": str(refused)}
    except duckdb.InterruptException:
        return {"error": f"stopped after {timeout_s:g} s: narrow the range or ask for less"}
    except duckdb.OutOfMemoryException as error:
        return {"error": f"stopped: the statement needs more memory than it may have: {error}"}
    except (duckdb.InternalException, duckdb.FatalException, duckdb.IOException) as error:
        # They tell where DuckDB and the home are, and addresses in memory.
        return {"failed": str(error)}
    except (duckdb.Error, RuntimeError) as error:
        said = str(error)
        return {"failed": said} if "Stack Trace:" in said else {"error": said}
    finally:
        timer.cancel()
        connection.close()


def _rows(connection: Any, row_limit: int) -> dict[str, Any]:
    described = connection.description or []
    rows = connection.fetchmany(row_limit + 1)
    answer = {
        "columns": [column[0] for column in described],
        "types": [str(column[1]) for column in described],
        "rows": [[plain(value) for value in row] for row in rows[:row_limit]],
        "truncated": len(rows) > row_limit,
    }
    return answer


def plain(value: Any) -> Any:
    """Return a value as JSON knows it; times in ISO form, decimals and what else has no JSON as text."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value.hex() if isinstance(value, bytes) else str(value)
