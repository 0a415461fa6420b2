"""The part that ``main()`` of every job shares: parse arguments, print figures or one clear error, return an exit code.

python -m jobs.ingest --config tidemark.toml telemetry flows
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from jobs.running.outcome import ALL_STREAMS, job_of, recorded
from lakehouse.config.problems import ConfigError, NotDeclared
from lakehouse.settings import Settings, load_settings
from lakehouse.storage.control.outcomes import error_text
from lakehouse.storage.ownership import keep_private

Kind = Literal["stream", "query"]
_KNOWN = {"stream": "declared streams", "query": "registered queries"}


def run_for(kind: Kind | None, run: Callable[..., dict[str, Any]], argv: Sequence[str] | None = None) -> int:
    """Run a job for the named streams or queries, all by default; without a kind once, for all streams together.

    Prints the figures as JSON, one line for each. Returns 0, 1 if one failed (the others are still run), 2 for a
    wrong configuration.
    """
    asked = arguments_of(run, argv, kind)
    try:
        settings = load_settings(asked.config, asked.home)
        names = _names(settings, kind, asked.names) if kind else [ALL_STREAMS]
    except Exception as error:
        print(error_text(error), file=sys.stderr)
        return 2 if isinstance(error, ConfigError | NotDeclared) else 1
    from lakehouse.spark.session import build_session

    spark, job, code = build_session(settings), job_of(run), 0
    for name in names:
        work = partial(run, settings, spark, name) if kind else partial(run, settings, spark)
        try:
            figures = recorded(job, settings, name, work)
        except Exception as error:
            print(f"{job} {name}: {error_text(error)}", file=sys.stderr)
            code = 1
        else:
            print(json.dumps(({kind: name} if kind else {}) | figures), flush=True)
    return code


def _names(settings: Settings, kind: Kind, asked: Sequence[str]) -> list[str]:
    if kind == "stream":
        return [settings.stream(name).name for name in asked] or list(settings.streams)
    # A query whose file is wrong fails with its message, and the others run.
    return [settings.query(name).name for name in asked] or [*settings.registered, *settings.faulty]


def arguments_of(
    run: Callable[..., Any], argv: Sequence[str] | None, kind: Kind | None = None
) -> argparse.Namespace:
    """Return the arguments of a job: ``config``, ``home``, and ``names`` of a kind; its files are private."""
    keep_private()
    parser = argparse.ArgumentParser(description=(sys.modules[run.__module__].__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--config", type=Path, help="tidemark.toml (default: TIDEMARK_CONFIG, or ./tidemark.toml)"
    )
    parser.add_argument("--home", type=Path, help="where everything is written (default: what the file says)")
    if kind:
        parser.add_argument("names", nargs="*", metavar=kind.upper(), help=f"{_KNOWN[kind]} (default: all)")
    return parser.parse_args(argv)
