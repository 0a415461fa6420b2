"""Check every rule on every stream's tables; a failed rule withholds its stream from the publish.

- **Job** `jobs/check_quality.py`, one task per stream
- **Reads** `ledger`, `raw`, `quarantine` and `rollup`
- **Writes** `quality` (history) and the pages under `reports`; a stream that passed starts `publish`
- **If a rule is about freshness, volume or silence** it also runs as often as `watch`, because nothing may come
- **If it is late** nothing new is published; a failed task's error names the rules and the report
"""

from typing import Any

from airflow.sdk import DAG, AssetOrTimeSchedule, CronTriggerTimetable

from dags._assets import EVENTS, any_of, asset
from dags._choice import choice, task_of
from dags._defaults import SEVERAL, dag_defaults
from dags._events import report
from dags._step import step
from lakehouse.config.airflow.homes import AirflowHome, airflow_homes


def quality(home: AirflowHome) -> Any:
    """Return the DAG of a home."""

    @choice
    def choose(events: str, params: Any = None) -> list[str]:
        from jobs.running.chosen import chosen_streams

        return chosen_streams(params, events)

    @step(multiple_outputs=False, post_execute=report)
    def check(stream: str, params: Any = None) -> dict[str, Any]:
        from jobs import check_quality
        from jobs.running.scheduled import run_one

        return run_one(check_quality.run, stream, params)

    with DAG(
        schedule=_schedule(home), doc_md=__doc__, **dag_defaults(home, "quality", "gate") | SEVERAL
    ) as made:
        checks = [
            task_of(check, {"stream": name}, outlets=[asset(home, "checked", name)]) for name in home.streams
        ]
        choose(EVENTS) >> checks
    return made


def _schedule(home: AirflowHome) -> Any:
    """Return when checks run: after news, and as often as the watch where a rule may fail because nothing comes."""
    changed = any_of(home, "rollup")
    if changed is None or not home.has_time_rules:
        return changed
    return AssetOrTimeSchedule(
        timetable=CronTriggerTimetable(home.settings.watch, timezone="UTC"), assets=changed
    )


for home in airflow_homes():
    quality(home)
