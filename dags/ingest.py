"""Ingest the landed files and new messages of every stream into raw, quarantine and ledger.

- **Job** `jobs/ingest.py`, one task per stream
- **Reads** each stream's landing folder or topics
- **Writes** `raw`, `quarantine` and `ledger`; news of a stream starts its `rollups` and `queries`
- **If nothing has landed** the stream's task is skipped, and starts nothing, unless a task after it has failed, or its
  DAG was paused: then the stream's news are sent again, after one minute, two, four and so on, at most an hour
- **If a stream cannot be read** its task fails and the run is red; the others continue
- **If it is late** answers are as old as the last run; nothing is lost, the next run ingests everything that has
  landed
- **While `tidemark serve` runs** it skips the service's streams, with the reason
"""

from typing import Any

from airflow.sdk import DAG

from dags._assets import asset
from dags._choice import choice_of_untried, task_of, unserved
from dags._defaults import SEVERAL, dag_defaults
from dags._events import report_change
from dags._step import step
from lakehouse.config.airflow.homes import AirflowHome, airflow_homes


def ingest(home: AirflowHome) -> Any:
    """Return the DAG of a home."""

    @choice_of_untried
    def choose(params: Any = None) -> list[str]:
        return unserved(params, "stream", unless_read=True)

    @step(multiple_outputs=False, post_execute=report_change)
    def take(stream: str, params: Any = None) -> dict[str, Any]:
        from jobs import ingest
        from jobs.running.lacking import lacking
        from jobs.running.scheduled import position, run_one

        figures = run_one(ingest.run, stream, params)
        # A batch is told of whoever lacks it, and asking costs a look at several tables.
        again = [] if figures["batches"] else lacking(stream, params)
        return figures | {"position": position(stream, params), "lacking": again}

    # One for each stream that may be slow, and one for the others: more would pile up on a busy machine.
    runs = {"max_active_runs": min(len(home.streams) + 1, *SEVERAL.values())}
    with DAG(
        schedule=home.settings.ingest, doc_md=__doc__, **dag_defaults(home, "ingest", "tables") | runs
    ) as made:
        takes = [task_of(take, {"stream": name}, outlets=[asset(home, "raw", name)]) for name in home.streams]
        choose() >> takes
    return made


for home in airflow_homes():
    ingest(home)
