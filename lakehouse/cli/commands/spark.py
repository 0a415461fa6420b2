"""``tidemark spark``: a Spark session in which the home's tables have names, for Spark jobs of one's own."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.options import WrongUsage, globals_of
from lakehouse.cli.output import print_table

if TYPE_CHECKING:
    from lakehouse.settings import Settings

EXAMPLES = (
    "tidemark spark",
    'tidemark spark --sql "SELECT device, count(*) FROM raw.telemetry GROUP BY device"',
    'tidemark spark --sql "SELECT count(*) FROM raw.telemetry VERSION AS OF 1"',
    "tidemark spark report.py 2026-01-01",
    "tidemark spark --connect",
)


_PORT = 15_002


def spark(
    context: typer.Context,
    script: Annotated[
        Path | None, typer.Argument(help="A Python file to run, in which `spark` is the session.")
    ] = None,
    arguments: Annotated[list[str] | None, typer.Argument(help="What the file finds in sys.argv.")] = None,
    sql: Annotated[str, typer.Option(help="One statement to run instead, with its rows printed.")] = "",
    limit: Annotated[int, typer.Option(min=1, help="The most rows that --sql prints.")] = 1_000,
    connect: Annotated[
        bool, typer.Option("--connect", help="Serve Spark Connect until it is stopped.")
    ] = False,
    host: Annotated[str, typer.Option(help="The address that --connect listens on.")] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            min=1, max=65_535, help="The port of --connect [default: that of an sc:// master, or 15002]."
        ),
    ] = None,
) -> None:
    """Open a Spark session over the home's tables.

    Opens a Python shell, runs a file or a statement, or serves notebooks and other processes. Tables are named by kind
    and stream or query, such as raw.telemetry, rollup.telemetry and pairs.warmer_neighbours, with time travel. Write
    results to tables of your own: those of the home are written by its jobs alone.
    """
    if sum((script is not None, bool(sql), connect)) > 1:
        raise WrongUsage("a file, --sql and --connect: choose one")
    if script is not None and not script.is_file():
        raise WrongUsage(f"{script}: no such file; expected a Python file")
    import runpy

    from lakehouse.spark.catalog import named_tables, open_session
    from lakehouse.spark.session import end_session, session_with_log

    settings = globals_of(context).settings()
    print(f"starting Spark, which logs to {settings.layout.spark_log}", file=sys.stderr)
    session_with_log(settings)
    if connect:
        _serve(settings, host, port)
        return
    session = open_session(settings)
    try:
        if script is not None:
            # As ``python`` runs it, with ``spark`` among its names.
            sys.argv = [str(script), *(arguments or [])]
            sys.path.insert(0, str(script.absolute().parent))
            runpy.run_path(str(script), dict(spark=session), "__main__")
        elif sql:
            _print(session, sql, limit)
        else:
            _interact(session, named_tables(settings))
    finally:
        end_session(session)


def _serve(settings: Settings, host: str, asked_port: int | None) -> None:
    """Serve sessions until the process is stopped, or Spark ends."""
    from lakehouse.spark.catalog import serve_sessions
    from lakehouse.spark.connect import token_of
    from lakehouse.spark.session import is_running

    own = settings.spark
    port = asked_port or (own.addresses()[0][1] if own.is_connect else _PORT)
    session = serve_sessions(settings, host, port)
    # A secret that was given is known to whoever may have it.
    token = "$TIDEMARK_SPARK__SECRET" if own.secret else token_of(settings)
    address = f"sc://localhost:{port}/;token={token}"
    print(f'SparkSession.builder.remote("{address}").getOrCreate()', flush=True)
    while is_running(session):
        time.sleep(1)
    raise RuntimeError(f"Spark has ended; {settings.layout.spark_log} says why")


def _print(session: Any, sql: str, limit: int) -> None:
    from lakehouse.spark.catalog import WrongStatement, result_of

    try:
        result = result_of(session, sql)
    except WrongStatement as error:
        raise WrongUsage(f"--sql: {error}") from None
    rows = result.limit(limit + 1).collect()
    print_table(result.columns, [tuple(row) for row in rows[:limit]], verbatim=True)
    if len(rows) > limit:
        print(f"only the first {limit:,} rows; --limit gives more", file=sys.stderr)


def _interact(session: Any, names: Iterable[str]) -> None:
    import code

    # Editing and history of lines.
    with suppress(ImportError):
        import readline  # noqa: F401
    listed = "\n  ".join(names) or "none yet"
    code.interact(
        f"Spark {session.version}; `spark` is the session. Tables:\n  {listed}",
        local=dict(spark=session),
        exitmsg="",
    )
