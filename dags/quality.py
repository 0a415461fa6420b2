"""Check every rule on every stream's tables; a failed rule withholds its stream from the publish.

- **Job** `jobs/check_quality.py`, one task per stream
- **Reads** `ledger`, `raw`, `quarantine` and `rollup`
- **Writes** `quality` (history) and the pages under `reports`; a run in which a stream passed starts `publish`
- **If it is late** nothing new is published; a failed task's error names the rules and the report
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import dag, task

from dags._defaults import CHECKED, ROLLUP, dag_defaults
from dags._step import fail_run_of, step


@dag(dag_id="quality", schedule=[ROLLUP], doc_md=__doc__, tags=["tidemark", "gate"], **dag_defaults())
def quality() -> None:
    """Check each stream, then report which passed."""

    @step()
    def choose(params: Any = None) -> list[str]:
        from jobs.running.scheduled import chosen_streams

        return chosen_streams(params)

    @step(multiple_outputs=False, map_index_template="{{ stream }}")
    def check(stream: str, params: Any = None) -> dict[str, Any]:
        from jobs import check_quality
        from jobs.running.scheduled import run_one

        return run_one(check_quality.run, stream, params)

    # A failed rule is about its stream: the publish withholds it, and says so even if there is no other stream.
    @task(outlets=[CHECKED], trigger_rule="all_done")
    def passed(figures: Any) -> int:
        return len(figures)

    checked = check.expand(stream=choose())
    passed(checked)
    fail_run_of(checked)


quality()
