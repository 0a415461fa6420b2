"""After a choice: the tasks of other streams or queries are skipped, and those that an earlier run tries again."""

import logging
from typing import Any

log = logging.getLogger(__name__)


def follow(context: Any, result: list[str]) -> None:
    """Skip the tasks after a choice whose stream or query it leaves out."""
    _skip_all_but(_chosen(context, result), context)


def follow_untried(context: Any, result: list[str]) -> None:
    """Skip, in a run of the schedule, also the tasks that wait in an earlier run to be tried again."""
    ti, chosen = context["ti"], _chosen(context, result)
    if context["dag_run"].run_type == "scheduled":
        for task_id in [*chosen]:
            if ti.get_ti_count(ti.dag_id, task_ids=[task_id], states=["up_for_retry"]):
                log.info("%s is tried again in an earlier run, with what has landed by then", task_id)
                chosen.remove(task_id)
    _skip_all_but(chosen, context)


def _chosen(context: Any, names: list[str]) -> list[str]:
    dag, after = context["dag"], context["task"].downstream_task_ids
    return [task_id for task_id in after if {*dag.get_task(task_id).op_kwargs.values()} & {*names}]


def _skip_all_but(task_ids: list[str], context: Any) -> None:
    from airflow.providers.standard.utils.skipmixin import SkipMixin

    SkipMixin().skip_all_except(context["ti"], task_ids)
