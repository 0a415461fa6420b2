"""The application: global options, how errors end a command, and exit codes.

0: the command succeeded; 1: it failed; 2: wrong usage or configuration, including a name that is neither declared nor
published; 143: SIGTERM ended it; 130: SIGINT did, which Ctrl-C sends.
"""

import gc
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated

import typer

from lakehouse.cli.commands import (
    airflow,
    ask,
    bridge,
    collect,
    doctor,
    explain,
    manifest,
    metrics,
    plan,
    plot,
    quality,
    queries,
    run,
    serve,
    simulate,
    spark,
    sql,
    status,
    token,
    web,
)
from lakehouse.cli.commands.corrections import accept_loss, quarantine, rebuild, requeue, retract
from lakehouse.cli.commands.declare import add, check, init
from lakehouse.cli.commands.profiles import profile, rules
from lakehouse.cli.options import Globals, WrongUsage
from lakehouse.config.problems import ConfigError
from lakehouse.service import ending
from lakehouse.storage.ownership import keep_private

# In the order in which the help lists them.
COMMANDS = (
    *(init, add, check, simulate, bridge, collect, run, serve, ask, plot, sql, spark, web, status, quality),
    *(
        metrics,
        plan,
        queries,
        explain,
        manifest,
        doctor,
        profile,
        rules,
        quarantine,
        requeue,
        accept_loss,
        rebuild,
        retract,
        token,
        airflow,
    ),
)
FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130

app = typer.Typer(
    name="tidemark",
    add_completion=False,
    pretty_exceptions_enable=False,
    # Rich would read [low, high] as markup, and costs a tenth of a second.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _tell_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        print(f"tidemark {version('tidemark')}")
        raise typer.Exit


@app.callback()
def _globals(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(help="Configuration file [default: $TIDEMARK_CONFIG, else ./tidemark.toml]."),
    ] = None,
    home: Annotated[
        Path | None,
        typer.Option(
            help="Folder for all tables and files, or s3://, gs://, abfss:// "
            "[default: $TIDEMARK_HOME, else as configured]."
        ),
    ] = None,
    _: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_tell_version, is_eager=True)
    ] = False,
) -> None:
    """A lakehouse for late, dirty streams: an answer now with a stated bound, the exact one after late data.

    Form: tidemark [--config FILE] [--home DIR] COMMAND ... [--json]

    Exit codes: 0 done; 1 the command failed; 2 wrong usage or configuration, including an unknown name; 143 ended by
    SIGTERM, 130 by Ctrl-C. An error is
    one message on stderr. With --json it is the object {"error": {"kind", "message"}} on stdout instead, so that
    stdout is always one JSON document. TIDEMARK_DEBUG=1 adds the traceback.
    """
    context.obj = Globals(config, home)


for _module in COMMANDS:
    # The mark keeps the lines of this paragraph as they are. A command's function has the name of its module.
    _examples = "\b\nExamples:\n" + "\n".join(f"  {command}" for command in _module.EXAMPLES)
    app.command(epilog=_examples)(getattr(_module, _module.__name__.rpartition(".")[2]))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command line and leave with its exit code."""
    keep_private()
    ending.listen()
    code = call(sys.argv[1:] if arguments is None else arguments)
    if number := ending.heard():
        ending.leave(128 + number)
    # Airflow's modules are a million objects, which the interpreter's end would look through several times.
    gc.freeze()
    sys.exit(code)


def call(arguments: Sequence[str]) -> int:
    """Run one command line; return its exit code after telling any error."""
    as_json = "--json" in arguments
    try:
        code = _command()(args=list(arguments) or ["--help"], prog_name="tidemark", standalone_mode=False)
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted()
    except BrokenPipeError:
        # Whoever read our output has gone; Python would complain once more while closing stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        # What is still raised then only says that something was cut short.
        return _interrupted() if ending.heard() else _reported(error, as_json)
    return code if isinstance(code, int) else 0


def _interrupted() -> int:
    print("interrupted", file=sys.stderr, flush=True)
    sys.stdout.flush()
    return INTERRUPTED


@cache
def _command() -> Callable[..., object]:
    """Return the command with all its subcommands; made once, because typer reads all options for each."""
    return typer.main.get_command(app)


def _reported(error: Exception, as_json: bool) -> int:
    from lakehouse.cli.output import tell_error
    from lakehouse.serving.ask.question import UnknownName

    tell_error(error, as_json)
    if isinstance(error, typer.TyperException):
        return error.exit_code
    return WRONG_USAGE if isinstance(error, ConfigError | WrongUsage | UnknownName) else FAILED
