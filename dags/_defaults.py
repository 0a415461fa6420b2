"""Defaults of all DAGs: the assets that chain them, their parameters and their retries.

ingest --raw--> rollups --rollup--> quality --checked--> publish --serving--> readers
            `-> queries                repair, every night
while `tidemark serve` does these: watch --rollup--> quality, every five minutes
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import Asset, Param

RAW = Asset("raw")
ROLLUP = Asset("rollup")
CHECKED = Asset("checked")
SERVING = Asset("serving")

_NAMES = r"^[a-z][a-z0-9_]*(\s*,\s*[a-z][a-z0-9_]*)*$"
INGEST_SCHEDULE = os.environ.get("TIDEMARK_INGEST_SCHEDULE", "*/5 * * * *")
REPAIR_SCHEDULE = os.environ.get("TIDEMARK_REPAIR_SCHEDULE", "0 2 * * *")
WATCH_SCHEDULE = os.environ.get("TIDEMARK_WATCH_SCHEDULE", "*/5 * * * *")
MAINTAIN_SCHEDULE = os.environ.get("TIDEMARK_MAINTAIN_SCHEDULE", "30 3 * * *")


def of_queries() -> dict[str, Param]:
    """Return the parameter that names registered queries."""
    description = "all, or names of registered queries with commas between; each over the named streams alone"
    return {"queries": Param("all", type="string", pattern=_NAMES, description=description)}


def range_end(what: str) -> Param:
    """Return a parameter that holds one end of a range of event time, or nothing."""
    description = (
        f"{what}, such as 2026-01-05 or 2026-01-05T06:00+01:00; UTC without an offset; empty: no limit"
    )
    return Param(None, type=["null", "string"], pattern=r"^\d{4}-\d{2}-\d{2}(T.+)?$", description=description)


def dag_defaults(more: Mapping[str, Param] | None = None) -> dict[str, Any]:
    """Return the arguments that every DAG gives to ``@dag``, with ``more`` parameters of its own.

    A task that returns figures has ``multiple_outputs=False``, because Airflow would store each figure a second time.

    One run at a time, because each table has one writer; no catching up, because a run ingests everything that has
    landed.
    """
    return {
        "start_date": datetime(2024, 1, 1, tzinfo=UTC),
        "catchup": False,
        "max_active_runs": 1,
        "default_args": {"retries": 2, "retry_delay": timedelta(minutes=1)},
        "params": {
            "streams": Param(
                "all",
                type="string",
                pattern=_NAMES,
                description="all, or names of declared streams with commas between",
            ),
            "config": Param(
                None,
                type=["null", "string"],
                description="path of tidemark.toml; empty: TIDEMARK_CONFIG, or ./tidemark.toml",
            ),
            **(more or {}),
        },
    }
