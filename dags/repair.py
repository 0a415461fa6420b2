"""Find what registered queries have missed, so that pairs and ticks are exact; then check how much was found at once.

- **Jobs** `jobs/repair_late.py` and `jobs/check_queries.py`, one task each per query
- **Reads** the log `missed_rows`, and `raw` around the rows in it
- **Writes** `pairs`, `multiway`, or `answers` and `alarms`; `repairs`; the verdicts to `quality`
- **If it is late** pairs and answers stay as complete as they were online; nothing is lost while raw rows are kept
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import dag, task_group

from dags._defaults import REPAIR_SCHEDULE, dag_defaults, of_queries
from dags._step import step


@dag(
    dag_id="repair",
    schedule=REPAIR_SCHEDULE,
    doc_md=__doc__,
    tags=["tidemark", "queries"],
    **dag_defaults(of_queries()),
)
def repair() -> None:
    """Repair each registered query, then check it; a failure is reported and stops no other query."""

    @step()
    def choose(params: Any = None) -> list[str]:
        from jobs.running.scheduled import chosen_queries

        return chosen_queries(params)

    @step(multiple_outputs=False, map_index_template="{{ task.op_kwargs['query'] }}")
    def complete(query: str, params: Any = None) -> dict[str, Any]:
        from jobs import repair_late
        from jobs.running.scheduled import run_one

        return run_one(repair_late.run, query, params)

    @step(multiple_outputs=False, map_index_template="{{ task.op_kwargs['query'] }}")
    def judge(query: str, params: Any = None) -> dict[str, Any]:
        from jobs import check_queries
        from jobs.running.scheduled import run_one

        return run_one(check_queries.run, query, params)

    # A group, so that a query whose repair fails does not keep others from being checked.
    @task_group
    def by_query(query: str) -> None:
        complete(query=query) >> judge(query=query)

    by_query.expand(query=choose())


repair()
