"""``tidemark sql``: run a SELECT on the published version, read-only and in a sandbox."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.options import AsJson, Memory, Timeout, WrongUsage, globals_of
from lakehouse.cli.output import print_json, print_table

if TYPE_CHECKING:
    from lakehouse.serving.sandbox.sandbox import SqlResult

EXAMPLES = (
    'tidemark sql "SHOW TABLES"',
    "tidemark sql \"SELECT * FROM range_sum('telemetry', 'temp', TIMESTAMP '2026-01-01', TIMESTAMP '2026-01-02')\"",
    'tidemark sql --csv "SELECT * FROM nodes LIMIT 10" > nodes.csv',
)


def sql(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="One SELECT; `-` reads it from stdin.")],
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV with a header.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="The most rows to return.")] = 10_000,
    timeout: Timeout = 30.0,
    memory: Memory = 512,
) -> None:
    """Run a SELECT on the published version.

    Macros such as `FROM range_sum(...)` answer ranges. The database is opened read-only, without access to files or
    network.
    """
    if as_json and as_csv:
        raise WrongUsage("--json and --csv: choose one")
    text = sys.stdin.read() if query == "-" else query
    from lakehouse.serving.sandbox.sandbox import open_published, run_sql

    with open_published(globals_of(context).home_folder()) as published:
        result = run_sql(published, text, limit, timeout, memory_mb=memory)
    _print(result, as_json, as_csv, limit)


def _print(result: SqlResult, as_json: bool, as_csv: bool, limit: int) -> None:
    import csv

    from lakehouse.serving.sandbox.sandbox import distinct

    if as_json:
        names = distinct(result.columns)
        print_json([dict(zip(names, row, strict=True)) for row in result.rows])
    elif as_csv:
        csv.writer(sys.stdout, lineterminator="\n").writerows([result.columns, *result.rows])
    else:
        print_table(result.columns, result.rows, verbatim=True)
    if result.truncated:
        print(f"only the first {limit:,} rows; --limit gives more", file=sys.stderr)
