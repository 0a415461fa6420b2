"""Skip a DAG's tasks while `tidemark serve` runs on the home and does their work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def unserved(params: Mapping[str, Any], kind: str) -> list[str]:
    """Return the streams or queries to process; if a service processes them all, skip the task and say so."""
    from airflow.sdk.exceptions import AirflowSkipException

    from jobs.running import scheduled

    left, who = scheduled.unserved(params, "stream" if kind == "stream" else "query")
    if who and not left:
        raise AirflowSkipException(who)
    return left


def leave_to_service(params: Mapping[str, Any]) -> None:
    """Skip the task, and say so, while a service runs on the home."""
    from airflow.sdk.exceptions import AirflowSkipException

    from jobs.running.scheduled import service_of

    if who := service_of(params):
        raise AirflowSkipException(who)
