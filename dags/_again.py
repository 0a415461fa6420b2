"""News that are sent again: their event started a task that failed, or would have started a DAG that was paused."""

from datetime import UTC, datetime, timedelta
from typing import Any

# The first wait before an event is sent again, which is doubled each time, and the longest.
AGAIN, AGAIN_AT_MOST = timedelta(minutes=1), timedelta(hours=1)
# The tasks of DAGs that news start.
_TASKS = {"rollups": "build.{}", "queries": "join.{}", "quality": "check.{}", "publish": "release"}
_GOING_ON = ["scheduled", "queued", "running", "restarting", "up_for_retry", "up_for_reschedule", "deferred"]


def times_sent_again(before: Any, ti: Any, lacking: list[str] | None) -> int:
    """Return how often an event will have been sent again, 0 if it is not to be sent: not yet, or not at all.

    ``before``: the last event. ``lacking``: the DAG that has not done its part, and a stream or query of it.
    """
    if not lacking or not before:
        return 0
    times = int((before.extra or {}).get("again", 0))
    is_early = datetime.now(UTC) < before.timestamp + wait_before(times)
    return 0 if is_early or goes_on(ti, *lacking) else times + 1


def wait_before(times: int) -> timedelta:
    """Return how long an event waits to be sent again after it was sent again so many times."""
    return min(AGAIN * (1 << min(times, 20)), AGAIN_AT_MOST)


def goes_on(ti: Any, dag: str, name: str) -> bool:
    """Return whether a DAG has a task of a stream or query that has not ended, or is yet to start a run."""
    dag_id, task_id = f"{ti.dag_id.rpartition('_')[0]}_{dag}", _TASKS[dag].format(name)
    tasks = ti.get_ti_count(dag_id=dag_id, task_ids=[task_id], states=_GOING_ON)
    return bool(tasks or ti.get_dr_count(dag_id=dag_id, states=["queued"]))
