"""Both runners make the same calls: the same results, the same errors, one Spark job a call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakehouse.engine import Engine, Item, engine_of
from lakehouse.engine.faults import KernelFailed
from lakehouse.engine.spark import SparkEngine
from lakehouse.engine.work import counted
from lakehouse.settings import Settings
from lakehouse.spark.session import build_session
from lakehouse.storage.control.outcomes import error_text
from tests.engine import kernels
from tests.engine.jobs import jobs_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
ITEMS = pa.table({"n": [1, 2, 3, 4, 5], "note": ["a", None, "c", "d", "e"]})
Call = Callable[[Engine, pa.Table], pa.Table]


@pytest.fixture(params=["spark", "local"])
def engine(request: pytest.FixtureRequest) -> Engine:
    if request.param == "local":
        return engine_of(request.getfixturevalue("session"))
    return engine_of(request.getfixturevalue("on_spark"))


def mapped(engine: Engine, items: pa.Table = ITEMS, kernel: Any = kernels.twice) -> pa.Table:
    return engine.map(items, kernel, kernels.NUMBERS, "double numbers, batch 12")


def keyed(
    engine: Engine, items: pa.Table = ITEMS, read: Any = kernels.spread, kernel: Any = kernels.summed
) -> pa.Table:
    return engine.by_key(items, read, kernels.KEYED, "key", kernel, kernels.SUMS, "add numbers, batch 12")


def test_results_of_items_come_in_their_order(engine: Engine) -> None:
    found = mapped(engine)

    assert found.schema == kernels.NUMBERS
    assert found["n"].to_pylist() == [1, 2, 2, 4, 3, 6, 4, 8, 5, 10]
    assert found["text"].to_pylist()[-2:] == ["of 5", "of 5"]


def test_rows_meet_by_key(engine: Engine) -> None:
    found = keyed(engine)

    assert found.schema == kernels.SUMS
    # 0 + 0 + ... of the numbers below 1, 2, 3, 4 and 5, by their rest after a division by three.
    assert sorted(zip(*found.to_pydict().values(), strict=True)) == [(0, 6), (1, 8), (2, 6)]


def test_no_items_are_no_results(engine: Engine) -> None:
    assert mapped(engine, ITEMS.slice(0, 0)) == kernels.NUMBERS.empty_table()
    assert keyed(engine, ITEMS.slice(0, 0)) == kernels.SUMS.empty_table()


def no_rows(item: Item) -> Iterator[pa.Table]:
    yield kernels.KEYED.empty_table()


def test_items_without_rows_have_no_keys(engine: Engine) -> None:
    assert keyed(engine, read=no_rows) == kernels.SUMS.empty_table()


@pytest.mark.parametrize(
    ("call", "note"),
    [
        (partial(mapped, kernel=kernels.failing), "in double numbers, batch 12: n=2, note=None"),
        (partial(keyed, read=kernels.failing_read), "in add numbers, batch 12: n=2, note=None"),
        (partial(keyed, kernel=kernels.failing_key), "in add numbers, batch 12: key 1"),
    ],
)
def test_an_error_of_a_kernel_stays_what_it_is_and_names_step_and_item(
    engine: Engine, call: Callable[[Engine], pa.Table], note: str
) -> None:
    with pytest.raises(LookupError, match=r"no (number|key)") as caught:
        call(engine)

    assert caught.value.__notes__ == [note]
    assert error_text(caught.value).endswith(note)


class Unsendable(Exception):
    """An error that is not made again of what it shows."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__(f"{one} and {other}")


def failing_oddly(item: Item) -> Iterator[pa.Table]:
    yield kernels.NUMBERS.empty_table()
    raise Unsendable(1, 2)


def test_an_error_that_cannot_be_sent_is_told_by_its_text(on_spark: SparkSession) -> None:
    with pytest.raises(KernelFailed, match="Unsendable: 1 and 2") as caught:
        mapped(engine_of(on_spark), kernel=failing_oddly)

    assert "failing_oddly" in str(caught.value.__cause__)


def test_a_call_is_one_spark_job_also_where_rows_meet_by_key(on_spark: SparkSession) -> None:
    # Two tasks or more, so that rows cross a shuffle.
    engine = SparkEngine(on_spark, cores=1)

    assert jobs_of(on_spark, lambda: mapped(engine)) == 1
    assert jobs_of(on_spark, lambda: keyed(engine)) == 1


def test_jobs_tasks_and_bytes_are_counted_for_the_thread_that_asked(on_spark: SparkSession) -> None:
    engine = SparkEngine(on_spark, cores=1)

    with counted() as of_map:
        mapped(engine)
    with counted() as by_key:
        jobs = jobs_of(on_spark, lambda: keyed(engine))

    # Four tasks a core; of five items one task has two.
    assert (of_map.jobs, of_map.tasks, of_map.shuffled_bytes) == (1, 4, 0)
    assert by_key.jobs == jobs == 1
    assert by_key.tasks in (5, 6) and by_key.shuffled_bytes > 100


def test_no_work_of_spark_is_counted_where_kernels_run_in_this_process(session: SparkSession) -> None:
    with counted() as work:
        keyed(engine_of(session))

    assert (work.jobs, work.tasks, work.shuffled_bytes) == (0, 0, 0)


@pytest.mark.parametrize("of_airflow", [{}, {"DAG_ID": "north_ingest", "TASK_ID": "take.alpha"}])
def test_a_job_is_named_by_its_step_and_airflows_task_on_the_pages_of_spark(
    on_spark: SparkSession, of_airflow: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DAG_ID", "TASK_ID"):
        monkeypatch.delenv(f"AIRFLOW_CTX_{name}", raising=False)
    for name, value in of_airflow.items():
        monkeypatch.setenv(f"AIRFLOW_CTX_{name}", value)

    mapped(engine_of(on_spark))

    newest = on_spark.sparkContext._jsc.sc().statusStore().jobsList(None).apply(0)
    step = "double numbers, batch 12"
    assert newest.description().get() == (f"north_ingest.take.alpha: {step}" if of_airflow else step)
    assert on_spark.sparkContext.getLocalProperty("spark.job.description") is None


@pytest.mark.parametrize(("runner", "name"), [("spark", "SparkEngine"), ("local", "LocalEngine")])
def test_settings_choose_the_runner_and_nothing_starts_before_a_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runner: str, name: str
) -> None:
    monkeypatch.setenv("TIDEMARK_ENGINE__RUNNER", runner)
    session = build_session(Settings(home=tmp_path))

    engine = engine_of(session)

    assert type(engine).__name__ == name
    assert mapped(engine, ITEMS.slice(0, 0)).num_rows == 0
    assert session._session is None  # type: ignore[attr-defined]
