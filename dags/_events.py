"""Events of assets, which start the DAGs after.

An event says how far its table is. It is sent where this differs from what the last one said, so that a schedule that
finds nothing new starts nothing; a task whose process was killed says it at its next try. News whose event started
tasks that failed, or a DAG that was paused, are sent again.
"""

from typing import Any

from airflow.sdk import Asset

from dags._again import times_sent_again


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
        again = times_sent_again(_last_event(target), context["ti"], result.get("lacking"))
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


def _last_event(target: Asset) -> Any:
    from airflow.sdk.execution_time.context import InletEventsAccessors

    return next(iter(InletEventsAccessors([target])[target].ascending(False).limit(1)), None)


def _counts(result: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in result.items() if isinstance(value, int | str) and value}
