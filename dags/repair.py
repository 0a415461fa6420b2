"""Find what registered queries have missed, so that pairs and ticks are exact; then check how much was found at once.

- **Jobs** `jobs/repair_late.py` and `jobs/check_queries.py`, one task each per query
- **Reads** the log `missed_rows`, and `raw` around the rows in it
- **Writes** `pairs`, `multiway`, or `answers` and `alarms`; `repairs`; the verdicts to `quality`;
  results start `publish`
- **If it is late** pairs and answers stay as complete as they were online; nothing is lost while raw rows are kept
"""

from typing import Any

from airflow.sdk import DAG

from dags._assets import asset
from dags._choice import choice, task_of
from dags._defaults import dag_defaults
from dags._events import report
from dags._params import QUERIES
from dags._step import step
from lakehouse.config.airflow.homes import AirflowHome, airflow_homes


def repair(home: AirflowHome) -> Any:
    """Return the DAG of a home."""

    @choice
    def choose(params: Any = None) -> list[str]:
        from jobs.running.chosen import begun_queries

        return begun_queries(params)

    @step(multiple_outputs=False, post_execute=report)
    def complete(query: str, params: Any = None) -> dict[str, Any]:
        from jobs import repair_late
        from jobs.running.scheduled import run_one

        return run_one(repair_late.run, query, params)

    @step(multiple_outputs=False)
    def judge(query: str, params: Any = None) -> dict[str, Any]:
        from jobs import check_queries
        from jobs.running.scheduled import run_one

        return run_one(check_queries.run, query, params)

    with DAG(
        schedule=home.settings.repair if home.queries else None,
        doc_md=__doc__,
        **dag_defaults(home, "repair", "queries", QUERIES),
    ) as made:
        chosen = choose()
        for name in home.queries:
            completed = task_of(complete, {"query": name}, outlets=[asset(home, "results", name)])
            chosen >> completed >> task_of(judge, {"query": name})
    return made


for home in airflow_homes():
    repair(home)
