"""One correction of a stream in a process of its own that a test may kill.

python -m tests.end_to_end.correcting CONFIG retract|maintain
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jobs import maintain, retract
from lakehouse.corrections.retract import Wrong
from lakehouse.settings import Settings, load_settings
from lakehouse.spark.session import build_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def correct(spark: SparkSession, settings: Settings, what: str) -> None:
    """Retract the rows of device w, or maintain."""
    if what == "retract":
        retract.run(settings, spark, "readings", Wrong(where={"device": "w"}), by="ann", why="never ours")
    else:
        maintain.run(settings, spark, "readings")


def main(argv: Sequence[str] | None = None) -> None:
    """Run it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("config", type=Path)
    parser.add_argument("what", choices=("retract", "maintain"))
    asked = parser.parse_args(argv)
    settings = load_settings(asked.config)
    correct(build_session(settings), settings, asked.what)


if __name__ == "__main__":
    main()
