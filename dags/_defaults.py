"""What all DAGs share: the assets that chain them, their parameters and how they retry.

ingest --raw--> rollups --rollup--> quality --checked--> publish --serving--> whoever asks
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import Asset, Param

RAW = Asset("raw")
ROLLUP = Asset("rollup")
CHECKED = Asset("checked")
SERVING = Asset("serving")

INGEST_SCHEDULE = os.environ.get("TIDEMARK_INGEST_SCHEDULE", "*/5 * * * *")
MAINTAIN_SCHEDULE = os.environ.get("TIDEMARK_MAINTAIN_SCHEDULE", "30 3 * * *")


def dag_defaults() -> dict[str, Any]:
    """Return the arguments that every DAG gives to ``@dag``.

    One run at a time, because each table has one writer; no catching up, because a run takes all that has landed.
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
                pattern=r"^[a-z][a-z0-9_]*(\s*,\s*[a-z][a-z0-9_]*)*$",
                description="all, or names of declared streams with commas between",
            ),
            "config": Param(
                None,
                type=["null", "string"],
                description="path of tidemark.toml; empty: TIDEMARK_CONFIG, or ./tidemark.toml",
            ),
        },
    }
