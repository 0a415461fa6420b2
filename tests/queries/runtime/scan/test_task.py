"""A task alone, without Spark: Arrow batches in, selected rows and counts out."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.scheduling.interval import Interval
from lakehouse.algorithms.scheduling.network import Network
from lakehouse.algorithms.scheduling.policies import DEFAULT, POLICIES
from lakehouse.config.sections import PolicyName, QuerySettings
from lakehouse.queries.kind import Conjunct, PythonCall
from lakehouse.queries.runtime.scan.measurements import Before, Measured, known_of
from lakehouse.queries.runtime.scan.readers import Reader, sources_of, written
from lakehouse.queries.runtime.scan.task import READER, ROW, TOLD, Work

COLUMNS = {"x": pa.int64(), "name": pa.string()}
ANSWER = pa.schema(
    [(READER, pa.int32()), (TOLD, pa.string()), ("event_us", pa.int64()), (ROW, pa.int64()), *COLUMNS.items()]
)
THIRDS = """
import pyarrow.compute as pc


def thirds(x):
    return pc.equal(pc.subtract(x, pc.multiply(pc.divide(x, 3), 3)), 0)
"""
SHORT = "def short(name) -> bool:\n    return name is not None and len(name) < 2\n"
# So slow that no other program, however long it holds the processor, makes the comparison beside it look slower.
SLOW = """
import time


def slow(name) -> bool:
    time.sleep(5e-5)
    return name is not None and len(name) < 2
"""
FUSSY = "def fussy(x) -> bool:\n    if x == 13:\n        raise ArithmeticError('13 is out of luck')\n    return True\n"
# Each condition with what it says of one row.
CONDITIONS: dict[str, Any] = {
    "`x` > 10": lambda x, name: x is not None and x > 10,
    "`x` <= 40": lambda x, name: x is not None and x <= 40,
    "`name` LIKE 'a%'": lambda x, name: name is not None and name.startswith("a"),
    "(`x` < 5 OR `name` IS NULL)": lambda x, name: (x is not None and x < 5) or name is None,
    "thirds(x)": lambda x, name: x is not None and x % 3 == 0,
    "short(name)": lambda x, name: name is not None and len(name) < 2,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("predicates")
    for name, text in {"thirds": THIRDS, "short": SHORT, "slow": SLOW, "fussy": FUSSY}.items():
        (found / f"{name}.py").write_text(text, encoding="utf-8")
    return found


def conjunct(text: str, folder: Path) -> Conjunct:
    columns = tuple(name for name in COLUMNS if name in text)
    if text.endswith(")") and not text.startswith("("):
        name = text.partition("(")[0]
        path = folder / f"{name}.py"
        return Conjunct(text, columns, PythonCall(name, path, "-> bool" in path.read_text(encoding="utf-8")))
    return Conjunct(text, columns)


def query(name: str, texts: Sequence[str], folder: Path, deadline_us: int = 10_000_000) -> Reader:
    return Reader(
        name, None, "s", tuple(conjunct(text, folder) for text in texts), tuple(COLUMNS), deadline_us
    )


def rows_of(values: Sequence[tuple[int | None, str | None]]) -> pa.RecordBatch:
    places = np.arange(len(values))
    arrays = [pa.array(places), pa.array(places + 1000)]
    arrays += [pa.array([row[n] for row in values], kind) for n, kind in enumerate(COLUMNS.values())]
    return pa.RecordBatch.from_arrays(arrays, names=["event_us", ROW, *COLUMNS])


def run(work: Work, batches: Sequence[pa.RecordBatch]) -> tuple[pa.Table, dict[str, Any]]:
    """Return what was selected, and what was told."""
    found = pa.Table.from_batches(list(work.run(iter(batches))), ANSWER)
    told = [text for text in found[TOLD].to_pylist() if text is not None]
    assert len(told) == 1
    return found.filter(pa.compute.is_valid(found[READER])), json.loads(told[0])


def work_of(queries: Sequence[Reader], **more: Any) -> Work:
    given = {"known": None, "interval": Interval(20, 10, 400, 1), "answer": ANSWER, **more}
    return Work(tuple(queries), sources_of(queries), **given)


VALUES = st.lists(
    st.tuples(st.none() | st.integers(0, 60), st.none() | st.sampled_from(["a", "ab", "b", "bcd"])),
    max_size=30,
)


@settings(max_examples=40, deadline=None)
@given(
    texts=st.lists(
        st.lists(st.sampled_from(sorted(CONDITIONS)), min_size=1, unique=True), min_size=1, max_size=4
    ),
    batches=st.lists(VALUES, max_size=4),
    limit_bytes=st.sampled_from([1, 500, 10**7]),
    is_known=st.booleans(),
    policy=st.sampled_from(get_args(PolicyName)),
)
def test_each_query_selects_what_it_would_alone_in_its_written_order_and_in_the_order_of_the_rows(
    folder: Path,
    texts: list[list[str]],
    batches: list[Any],
    limit_bytes: int,
    is_known: bool,
    policy: str,
) -> None:
    queries = [query(f"q{n}", each, folder) for n, each in enumerate(texts)]
    known = None
    if is_known:
        speeds = {text: (10.0 ** (n + 1), 1 / (n + 1)) for n, text in enumerate(sorted(CONDITIONS))}
        whole = {"arrived_per_s": 100.0, "switch_us": 1.0, "tau_us": 200_000, "time_us": None}
        known = known_of(Network.of(written(queries)), {each.name: Before(speeds, whole) for each in queries})

    found, told = run(
        work_of(queries, limit_bytes=limit_bytes, known=known, policy=policy),
        [rows_of(each) for each in batches],
    )

    for number, each in enumerate(texts):
        own = found.filter(pa.compute.equal(found[READER], number)).select([*COLUMNS]).to_pylist()
        wanted = [row for batch in batches for row in batch if all(CONDITIONS[text](*row) for text in each)]
        assert [(row["x"], row["name"]) for row in own] == wanted
        assert told["readers"][number]["rows"] == len(wanted)
    assert told["arrived"] == [sum(map(len, batches))]
    before = {each.name: Before({}, _nothing()) for each in queries}
    assert len(Measured(queries, before, [told], policy).figures()) == len(queries)


def test_a_configuration_may_name_every_policy() -> None:
    assert set(get_args(PolicyName)) == POLICIES.keys()
    assert QuerySettings().policy == DEFAULT


def test_rows_arrive_at_the_rate_of_the_ledger_where_it_says(folder: Path) -> None:
    queries = [query("one", ["thirds(x)"], folder)]
    _, told = run(work_of(queries), [rows_of([(n % 50, "a") for n in range(5000)])])

    measured = Measured(queries, {"one": Before({}, _nothing())}, [told], arrival_us=10_000_000)

    assert measured.figures()[0][0]["arrived_per_s"] == 500


def test_a_condition_of_several_queries_is_asked_once_a_row(folder: Path) -> None:
    queries = [query("one", ["thirds(x)"], folder), query("two", ["thirds(x)", "`x` > 10"], folder)]
    batch = rows_of([(n % 50, "a") for n in range(5000)])

    _, alone = run(work_of(queries[:1]), [batch])
    _, both = run(work_of(queries), [batch])

    assert sum(taken[0] for taken in both["taken"]) > sum(taken[0] for taken in alone["taken"])
    figures = Measured(queries, {each.name: Before({}, _nothing()) for each in queries}, [both]).figures()
    assert figures[0][0]["arrived_per_s"] > 5000
    # n is measured over all that share it.
    assert figures[0][1]["handled_per_s"] == figures[1][1]["handled_per_s"]


def test_a_query_that_raises_is_told_with_operator_error_and_line_and_the_others_go_on(folder: Path) -> None:
    queries = [query("fine", ["`x` > 10"], folder), query("bad", ["fussy(x)", "`x` > 2"], folder)]

    found, told = run(work_of(queries), [rows_of([(n, "a") for n in range(20)])])

    assert pa.compute.sum(pa.compute.equal(found[READER], 0)).as_py() == 9
    assert "error" not in told["readers"][0]
    bad = told["readers"][1]
    assert (bad["failed_at"], bad["error"]) == ("fussy(x)", "ArithmeticError: 13 is out of luck")
    assert bad["place"] == "fussy.py:3"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "def broken(x):\n    return [True] * len(x)\n",
            "TypeError: broken returned list; expected a boolean",
        ),
        ("def broken(x):\n    return x\n", "TypeError: broken returned int64; expected a boolean"),
        (
            "def broken(x):\n    import numpy\n    return numpy.ones(1, bool)\n",
            "expected one truth value for each of",
        ),
        ("raise RuntimeError('no model')\n", "RuntimeError: no model"),
    ],
)
def test_what_is_no_predicate_stops_its_query_only(
    tmp_path: Path, folder: Path, text: str, told: str
) -> None:
    (tmp_path / "broken.py").write_text(text, encoding="utf-8")
    call = Conjunct("broken(x)", ("x",), PythonCall("broken", tmp_path / "broken.py", by_row=False))
    good = query("good", ["`x` > 10"], folder)
    bad = Reader("bad", None, "s", (call,), good.columns, 1)

    _, found = run(work_of([bad, good]), [rows_of([(n, "a") for n in range(20)])])

    assert told in found["readers"][0]["error"]
    assert found["readers"][1]["rows"] == 9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("def endless(x):\n    while True:\n        pass\n", "endless of 20 rows"),
        (
            "def endless(x) -> bool:\n    while x == 13:\n        pass\n    return True\n",
            "endless of 20 rows",
        ),
        ("while True:\n    pass\ndef endless(x): ...\n", "running endless.py"),
        # It tries again, whatever is raised, twice.
        (
            "def endless(x):\n    for again in range(3):\n        try:\n            while True:\n                pass\n"
            "        except Exception:\n            if again == 2:\n                raise\n",
            "endless of 20 rows",
        ),
    ],
)
def test_a_predicate_that_never_returns_is_ended_and_the_others_go_on(
    tmp_path: Path, folder: Path, text: str, what: str
) -> None:
    (tmp_path / "endless.py").write_text(text, encoding="utf-8")
    call = Conjunct("endless(x)", ("x",), PythonCall("endless", tmp_path / "endless.py", "-> bool" in text))
    good = query("good", ["`x` > 10"], folder)
    bad = Reader("bad", None, "s", (call,), good.columns, 1)
    alarm = signal.getsignal(signal.SIGALRM)

    _, found = run(work_of([bad, good], timeout_s=0.2), [rows_of([(n, "a") for n in range(20)])])

    assert found["readers"][0]["error"] == f"TimeoutError: {what} took longer than 0.2 s"
    assert found["readers"][0]["place"].startswith("endless.py:")
    assert found["readers"][1]["rows"] == 9
    assert signal.getsignal(signal.SIGALRM) is alarm


def test_a_file_that_is_gone_stops_its_query_only(folder: Path) -> None:
    call = Conjunct("gone(x)", ("x",), PythonCall("gone", folder / "gone.py", by_row=False))
    good = query("good", ["`x` > 10"], folder)
    bad = Reader("bad", None, "s", (call,), good.columns, 1)

    _, found = run(work_of([bad, good]), [rows_of([(11, "a")])])

    assert "No such file" in found["readers"][0]["error"]


def test_measured_order_puts_what_takes_out_most_a_second_first_and_the_next_batch_begins_with_it(
    folder: Path,
) -> None:
    asked = query("q", ["slow(name)", "`x` > 10"], folder)
    before: Mapping[str, Before] = {"q": Before({}, _nothing())}
    _, told = run(work_of([asked]), [rows_of([(n % 12, "ab" if n % 2 else "a") for n in range(4_000)])])

    whole, slow, wide = Measured([asked], before, [told]).figures()[0]

    assert (whole["rows"], whole["selected"]) == (4_000, 0)
    assert [slow["operator"], wide["operator"]] == [0, 1]
    # Rows are passed through slow first, half of them; x lets one of twelve through.
    assert (slow["position"], wide["position"]) == (1, 0)
    known = known_of(
        Network.of(written([asked])), {"q": Before({slow["name"]: (1.0, 0.5)}, whole | {"time_us": 1})}
    )
    assert known is not None
    assert known.handled_per_s[0, 0] == 1.0 and known.selectivity[0, 0] == 0.5


def _nothing() -> dict[str, Any]:
    return dict.fromkeys(("arrived_per_s", "switch_us", "tau_us", "time_us"))
