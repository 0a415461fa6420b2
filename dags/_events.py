"""Events of assets, which start the DAGs after.

An event says how far its table is. It is sent where this differs from what the last one said, so that a schedule that
finds nothing new starts nothing; a task whose process was killed says it at its next try. News whose event started
tasks that failed, or a DAG that was paused, are sent again.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import Asset

# The first wait before an event is sent again, which is doubled each time, and the longest.
AGAIN, AGAIN_AT_MOST = timedelta(minutes=1), timedelta(hours=1)
# The tasks of DAGs that news start.
_TASKS = {"rollups": "build.{}", "queries": "join.{}", "quality": "check.{}", "publish": "release"}
_GOING_ON = ["scheduled", "queued", "running", "restarting", "up_for_retry", "up_for_reschedule", "deferred"]


def report(context: Any, result: Any) -> None:
    """Send the event of a task's asset, with what the task did."""
    (target,) = context["task"].outlets
    context["outlet_events"][target].extra = _counts(result)


def report_change(context: Any, result: Any) -> None:
    """Send the event of a task's asset, or skip the task where the last event has said the same.

    It is sent again where ``lacking`` names a DAG that has not done its part, and a stream or query of it.
    """
    from airflow.sdk.exceptions import AirflowSkipException

    (target,) = context["task"].outlets
    again = 0
    if not is_changed(target, result["position"]):
        again = _times_sent_again(target, context, result.get("lacking"))
        if not again:
            raise AirflowSkipException("nothing is new since the last event")
    extra = {"position": result["position"]} | ({"again": again} if again else {})
    context["outlet_events"][target].extra = _counts(result) | extra


def report_served(context: Any, result: Any) -> None:
    """Send an event for each stream of which a service has processed something new."""
    (alias,) = context["task"].outlets
    for target in context["task"].inlets:
        position = result["positions"].get(target.extra["of"])
        if position and is_changed(target, position):
            context["outlet_events"][alias].add(target, extra={"position": position})


def is_changed(target: Asset, position: Any) -> bool:
    """Return whether a table is elsewhere than its last event said."""
    before = _last_event(target)
    return bool(position) and not (before and (before.extra or {}).get("position") == position)


def _times_sent_again(target: Asset, context: Any, lacking: list[str] | None) -> int:
    """Return how often an event will have been sent again, 0 if it is not to be sent: not yet, or not at all."""
    before = _last_event(target)
    if not lacking or not before:
        return 0
    times = int((before.extra or {}).get("again", 0))
    is_early = datetime.now(UTC) < before.timestamp + wait_before(times)
    return 0 if is_early or goes_on(context["ti"], *lacking) else times + 1


def wait_before(times: int) -> timedelta:
    """Return how long an event waits to be sent again after it was sent again so many times."""
    return min(AGAIN * (1 << min(times, 20)), AGAIN_AT_MOST)


def goes_on(ti: Any, dag: str, name: str) -> bool:
    """Return whether a DAG has a task of a stream or query that has not ended, or is yet to start a run."""
    dag_id, task_id = f"{ti.dag_id.rpartition('_')[0]}_{dag}", _TASKS[dag].format(name)
    tasks = ti.get_ti_count(dag_id=dag_id, task_ids=[task_id], states=_GOING_ON)
    return bool(tasks or ti.get_dr_count(dag_id=dag_id, states=["queued"]))


def _last_event(target: Asset) -> Any:
    from airflow.sdk.execution_time.context import InletEventsAccessors

    return next(iter(InletEventsAccessors([target])[target].ascending(False).limit(1)), None)


def _counts(result: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in result.items() if isinstance(value, int | str) and value}
