"""What the ``main()`` of every job shares: arguments in, figures or one clear error out, an exit code.

python -m jobs.ingest --config tidemark.toml telemetry flows
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from jobs.outcome import recorded, told
from lakehouse.catalog.problems import ConfigError
from lakehouse.catalog.settings import load_settings


def run_for_streams(run: Callable[..., dict[str, Any]], argv: Sequence[str] | None) -> int:
    """Run a job for the streams named (all by default) and print its figures as JSON, one line per stream.

    Returns 0, 1 when a stream failed (the others are still run), 2 for a wrong configuration.
    """
    parser = argparse.ArgumentParser(description=(sys.modules[run.__module__].__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--config", type=Path, help="tidemark.toml (default: TIDEMARK_CONFIG, or ./tidemark.toml)"
    )
    parser.add_argument("--home", type=Path, help="where everything is written (default: what the file says)")
    parser.add_argument("streams", nargs="*", help="declared streams (default: all)")
    asked = parser.parse_args(argv)
    try:
        settings = load_settings(asked.config, asked.home)
        streams = [settings.stream(name).name for name in asked.streams] or list(settings.streams)
    except (ConfigError, KeyError) as error:
        print(error, file=sys.stderr)
        return 2
    from lakehouse.spark.session import build_session

    spark = build_session(settings)
    job = run.__module__.rpartition(".")[2] if run.__module__ != "__main__" else Path(sys.argv[0]).stem
    failed = 0
    for stream in streams:
        try:
            figures = recorded(job, settings, stream, partial(run, settings, spark, stream))
            print(json.dumps({"stream": stream, **figures}), flush=True)
        except Exception as error:
            failed = 1
            print(f"{job} {stream}: {told(error)}", file=sys.stderr)
    return failed
