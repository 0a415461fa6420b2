"""The first task of most DAGs: it chooses streams or queries, without what `tidemark serve` does on the home."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from dags._following import follow, follow_untried
from dags._step import step

if TYPE_CHECKING:
    from jobs.running.chosen import Kind


def choice(function: Callable[..., Any]) -> Any:
    """Make a task that returns names; of the tasks after it those of other names are skipped.

    It starts no Spark, and so takes no place in the pool that bounds how many do.
    """
    return step(post_execute=follow, pool="default_pool")(function)


def choice_of_untried(function: Callable[..., Any]) -> Any:
    """Make a choice that leaves to an earlier run of the schedule what that is to try again.

    A try takes in all that has landed by then. Runs that wait for one stream would fill the runs that may be active at
    a time, and so hold the others back.
    """
    return step(post_execute=follow_untried, pool="default_pool")(function)


def task_of(function: Any, of: Mapping[str, str], **options: Any) -> Any:
    """Return the task of one stream or query, of which one runs at a time: each table has one writer."""
    (name,) = of.values()
    named = f"{function.function.__name__}.{name}"
    return function.override(task_id=named, max_active_tis_per_dag=1, **options)(**of)


def unserved(params: Mapping[str, Any], kind: Kind, events: str = "", unless_read: bool = False) -> list[str]:
    """Return the streams or queries to process; if a service processes them all, skip the task and say so.

    ``events``: names of assets that have started the run. ``unless_read``: without streams that another run reads.
    """
    from airflow.sdk.exceptions import AirflowSkipException

    from jobs.running import chosen

    left, who = chosen.unserved(params, kind, events)
    if who and not left:
        raise AirflowSkipException(who)
    return chosen.without_read(params, left) if unless_read else left


def leave_to_service(params: Mapping[str, Any]) -> None:
    """Skip the task, and say so, while a service runs on the home."""
    from airflow.sdk.exceptions import AirflowSkipException

    from jobs.running.scheduled import service_of

    if who := service_of(params):
        raise AirflowSkipException(who)
