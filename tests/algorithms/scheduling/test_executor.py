from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.scheduling.contract import Chain, Operator, Plan, Query
from lakehouse.algorithms.scheduling.executor import Executor
from lakehouse.algorithms.scheduling.interval import Interval
from lakehouse.algorithms.scheduling.multifactor import MultiFactor
from lakehouse.algorithms.scheduling.operators import Predicate
from lakehouse.algorithms.scheduling.policies import Fifo
from lakehouse.algorithms.scheduling.policy import Policy
from tests.algorithms.scheduling.running import SHORT, VirtualClock, fed, plain, queries, sources
from tests.algorithms.scheduling.workloads import POLICIES
from tests.oracles.scheduling.alone import alone, run_through
from tests.oracles.scheduling.columns import Columns

every_policy = pytest.mark.parametrize("make", POLICIES.values(), ids=POLICIES.keys())
moderate = settings(max_examples=50, deadline=None)
CLOCK = VirtualClock()


def numbers(*values: int) -> Columns:
    return Columns({"x": np.array(values)})


def query(name: str, *operators: Operator, deadline_us: int = 600_000) -> Query:
    return Query(name, Chain("s", operators), deadline_us)


def keeps(name: str, run: Callable[[Any], Any], **more: Any) -> Predicate:
    return Predicate(name, run=run, **more)


@every_policy
@moderate
@given(
    asked=queries(CLOCK),
    source=sources(),
    limit_bytes=st.sampled_from([1, 200, 10**6]),
    ahead=st.integers(0, 5),
)
def test_results_are_those_of_each_query_alone_in_its_written_order(
    make: Callable[[], Policy], asked: list[Query], source: list[Any], limit_bytes: int, ahead: int
) -> None:
    clock = CLOCK
    read = set(Executor(asked, make(), clock).network.streams)
    offered = [(stream, rows) for stream, rows in source if stream in read]

    executor, found = fed(asked, source, make(), clock, limit_bytes, ahead)

    for each in asked:
        wanted = [(number, plain(rows)) for number, rows in alone(each, offered)]
        assert [(one.number, plain(one.rows)) for one in found if one.query == each.name] == wanted
    assert executor.memory.held == 0
    assert executor.waiting.sum() == 0


@every_policy
@moderate
@given(asked=queries(CLOCK), source=sources(), guilty=st.integers(0, 49))
def test_a_query_that_raises_alone_is_stopped_with_what_it_had_read_before(
    make: Callable[[], Policy], asked: list[Query], source: list[Any], guilty: int
) -> None:
    """Every query gets a predicate at its end that raises on one value, and must not be moved before the others."""

    def raises(rows: Columns) -> Any:
        if (rows["x"] == guilty).any():
            raise ArithmeticError(f"found {guilty}")
        return rows["x"] >= 0

    last = keeps("last", raises, commutes=False)
    faulty = [
        Query(each.name, Chain(each.chain.source, (*each.chain.operators, last)), each.deadline_us)
        for each in asked
    ]
    read = set(Executor(faulty, make(), CLOCK).network.streams)
    offered = [(stream, rows) for stream, rows in source if stream in read]

    executor, found = fed(faulty, source, make(), CLOCK, 300)

    for each in faulty:
        state = executor.states[each.name]
        good = len(offered) if state.failed_on is None else state.failed_on
        wanted = [(number, plain(rows)) for number, rows in alone(each, offered[:good])]
        mine = [(one.number, plain(one.rows)) for one in found if one.query == each.name]
        assert [one for one in mine if one[0] < good] == wanted
        if state.failed_on is not None:
            with pytest.raises(ArithmeticError, match=f"found {guilty}"):
                alone(each, offered[: good + 1])
    assert executor.memory.held == 0


def test_a_query_that_raises_is_told_and_the_others_go_on() -> None:
    def broken(rows: Columns) -> Any:
        if rows["x"].max() > 5:
            raise KeyError("no such thing")
        return rows["x"] > 0

    asked = [query("bad", keeps("broken", broken)), query("good", keeps("all", lambda rows: rows["x"] > 0))]
    executor = Executor(asked, Fifo(), VirtualClock())

    found = list(run_through(executor, (("s", numbers(at, at + 1)) for at in range(1, 9))))

    assert [one.number for one in found if one.query == "good"] == list(range(8))
    assert [one.number for one in found if one.query == "bad"] == [0, 1, 2, 3, 4][:4]
    state = executor.states["bad"]
    assert (state.failed_at, state.failed_on, state.results) == ("broken", 4, 4)
    assert isinstance(state.error, KeyError)
    assert executor.states["good"].error is None


class Backwards:
    """The other way round from the first interval on."""

    name = "backwards"
    reorders = True

    def plan(self, network: Any, measured: Any, before: Plan) -> Plan:
        order = np.arange(network.size)
        for segment in network.segments:
            order[segment] = segment[::-1]
        return Plan(order, before.discipline, before.priority, before.visits, before.slices_us)


def test_a_guard_keeps_its_place_once_what_it_guards_has_raised() -> None:
    clock = VirtualClock()

    def is_not_zero(rows: Columns) -> Any:
        clock.spend(60)
        return rows["x"] != 0

    def divides(rows: Columns) -> Any:
        clock.spend(60)
        return np.array([12 % value == 0 for value in rows["x"].tolist()])

    asked = [query("q", keeps("guard", is_not_zero), keeps("guarded", divides))]
    source = [("s", numbers(1, 2, 5, 6)) for _ in range(6)] + [("s", numbers(0, 3, 5)) for _ in range(6)]
    executor = Executor(asked, Backwards(), clock, interval=SHORT)
    orders = []
    found = []
    for stream, rows in source:
        executor.offer(stream, rows)
        while executor.step():
            orders.append(executor.order.tolist())
        found += executor.results()

    assert executor.states["q"].error is None
    assert [1, 0] in orders
    assert orders[-1] == [0, 1]
    assert [(one.number, plain(one.rows)) for one in found] == [
        (number, plain(rows)) for number, rows in alone(asked[0], source)
    ]


def test_one_batch_is_read_once_for_all_and_given_back_with_its_last_reader() -> None:
    rows = numbers(*range(1000))
    asked = [query(f"q{i}", keeps("some", lambda rows: rows["x"] % 2 == 0)) for i in range(5)]
    executor = Executor(asked, Fifo(), VirtualClock())

    executor.offer("s", rows)
    held = executor.memory.held
    while executor.step():
        pass

    assert held == rows.nbytes
    assert executor.memory.held == 0


@every_policy
def test_a_shared_predicate_runs_once_a_row_wherever_it_stands(make: Callable[[], Policy]) -> None:
    clock, asked_rows = VirtualClock(), []

    def costly(rows: Columns) -> Any:
        asked_rows.extend(rows["x"].tolist())
        clock.spend(10 * rows.num_rows)
        return rows["x"] % 7 != 0

    def own(rest: int) -> Predicate:
        return keeps(f"own{rest}", lambda rows: rows["x"] % 3 == rest)

    shared = keeps("costly", costly, shared="costly")
    asked = [query("a", shared, own(0)), query("b", own(1), shared), query("c", shared)]
    source = [("s", numbers(*range(at, at + 30))) for at in range(0, 300, 30)]

    _, found = fed(asked, source, make(), clock, 1000)

    assert sorted(asked_rows) == list(range(300))
    for each in asked:
        mine = [(one.number, plain(one.rows)) for one in found if one.query == each.name]
        assert mine == [(number, plain(rows)) for number, rows in alone(each, source)]


def test_a_full_executor_takes_nothing_and_drops_nothing() -> None:
    asked = [
        query("q", keeps("all", lambda rows: rows["x"] >= 0), keeps("odd", lambda rows: rows["x"] % 2 == 1))
    ]
    executor = Executor(asked, Fifo(), VirtualClock(), limit_bytes=300)
    batches = [numbers(*range(at, at + 20)) for at in range(0, 200, 20)]
    refused = 0
    for rows in batches:
        while not executor.offer("s", rows):
            refused += 1
            executor.step()
    while executor.step():
        pass

    assert refused > 0
    assert sum(one.rows.num_rows for one in executor.results()) == 100
    assert executor.memory.peak <= 300 + batches[0].nbytes + 16 * 20


def test_a_batch_above_the_limit_is_taken_when_nothing_else_is_held() -> None:
    executor = Executor([query("q", keeps("all", lambda rows: rows["x"] >= 0))], Fifo(), VirtualClock(), 1)

    assert executor.offer("s", numbers(1, 2, 3))
    assert not executor.offer("s", numbers(4))


def test_time_counts_from_when_the_batch_was_offered() -> None:
    clock = VirtualClock()

    def slow(rows: Columns) -> Any:
        clock.spend(30)
        return rows["x"] > 0

    executor = Executor([query("q", keeps("slow", slow), deadline_us=50)], Fifo(), clock)
    executor.offer("s", numbers(1))
    clock.spend(15)
    executor.offer("s", numbers(2))
    while executor.step():
        pass

    assert [one.delay_us for one in executor.results()] == [45, 60]
    state = executor.states["q"]
    assert (state.results, state.rows, state.misses, state.delay_us, state.worst_delay_us) == (
        2,
        2,
        1,
        105,
        60,
    )


def test_n_s_and_v_are_measured_in_rows() -> None:
    clock = VirtualClock()

    def half(rows: Columns) -> Any:
        clock.spend(2 * rows.num_rows)
        return rows["x"] % 2 == 0

    executor = Executor(
        [query("q", keeps("half", half))], MultiFactor(), clock, interval=Interval(1000, 1000, 1000)
    )
    for at in range(0, 1000, 10):
        executor.offer("s", numbers(*range(at, at + 10)))
        while executor.step():
            pass

    known = executor.planning.measured
    assert known.handled_per_s[0, 0] == pytest.approx(500_000)
    assert known.selectivity[0, 0] == pytest.approx(0.5)
    assert known.arrived_per_s[0] == pytest.approx(500_000, rel=0.1)


def test_the_order_that_was_measured_to_be_best_comes_into_force() -> None:
    clock = VirtualClock()

    def costing(us: float, modulus: int) -> Callable[[Columns], Any]:
        def run(rows: Columns) -> Any:
            clock.spend(us * rows.num_rows)
            return rows["x"] % modulus == 0

        return run

    asked = [query("q", keeps("dear", costing(10, 2)), keeps("cheap", costing(1, 10)))]
    executor = Executor(asked, MultiFactor(), clock, interval=SHORT)

    for _ in run_through(executor, (("s", numbers(*range(100))) for _ in range(20))):
        pass

    assert executor.order.tolist() == [1, 0]
    assert executor.planning.changes == 1


def test_arrow_batches_go_through_as_they_are_and_null_is_false() -> None:
    batch = pa.record_batch({"x": pa.array([1, None, 3, 4]), "name": pa.array(["a", "b", None, "d"])})
    asked = [
        query("big", keeps("big", lambda rows: pc.greater(rows["x"], 2), columns=("x",))),
        query(
            "named", keeps("named", lambda rows: pc.is_valid(rows["name"]), columns=("name",), shared="named")
        ),
    ]
    executor = Executor(asked, Fifo(), VirtualClock())

    found = {one.query: one.rows.to_pydict() for one in run_through(executor, [("s", batch)])}

    assert found["big"] == {"x": [3, 4], "name": [None, "d"]}
    assert found["named"]["name"] == ["a", "b", "d"]


def test_a_mask_of_another_length_stops_the_query() -> None:
    executor = Executor([query("q", keeps("short", lambda rows: rows["x"][:1] > 0))], Fifo(), VirtualClock())

    list(run_through(executor, [("s", numbers(1, 2))]))

    assert "one truth value for each of 2 rows" in str(executor.states["q"].error)


def test_a_stream_that_nobody_reads_is_refused() -> None:
    executor = Executor([query("q", keeps("all", lambda rows: rows["x"] > 0))], Fifo(), VirtualClock())

    with pytest.raises(ValueError, match="expected one of the streams s, found t"):
        executor.offer("t", numbers(1))


def test_an_operator_that_is_only_a_name_is_refused() -> None:
    with pytest.raises(TypeError, match="operator a: expected a Predicate, found Operator"):
        Executor([query("q", Operator("a"))], Fifo(), VirtualClock())


def test_a_limit_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="limit from 1 byte, found 0"):
        Executor([query("q", keeps("all", lambda rows: rows["x"] > 0))], Fifo(), VirtualClock(), 0)


def test_an_executor_goes_on_with_the_order_that_the_one_before_has_measured() -> None:
    clock = VirtualClock()

    def slow(rows: Columns) -> Any:
        clock.spend(100 * rows.num_rows)
        return rows["x"] % 2 == 0

    def quick(rows: Columns) -> Any:
        clock.spend(rows.num_rows)
        return rows["x"] < 3

    asked = [query("q", keeps("slow", slow), keeps("quick", quick))]
    batches = [("s", numbers(*range(10)))] * 5
    first = Executor(asked, MultiFactor(), clock, interval=Interval(10**6, 10**6, 10**6))
    before = [plain(result.rows) for result in run_through(first, batches)]
    counted = first.counted
    known = counted.measured(clock.ns // 1000, first.planning.measured)
    begun_ns = clock.ns

    second = Executor(asked, MultiFactor(), clock, interval=Interval(10**6, 10**6, 10**6), known=known)
    after = [plain(result.rows) for result in run_through(second, batches)]

    # Each was also asked of whole batches beforehand, in turns: quick of three, slow of two.
    assert counted.taken[:, 0].tolist() == [50 + 20, 25 + 30]
    assert first.order.tolist() == [0, 1]
    assert second.order.tolist() == [1, 0]
    assert after == before
    # quick alone sees all rows: slow is asked of three of ten.
    assert clock.ns - begun_ns < 0.5 * begun_ns
    assert second.peak_waiting.tolist() == [3, 10]


def test_a_deadline_counts_from_when_a_batch_is_said_to_have_come() -> None:
    clock = VirtualClock()
    executor = Executor([query("q", keeps("all", lambda rows: rows["x"] > 0), deadline_us=50)], Fifo(), clock)
    clock.spend(100)

    executor.offer("s", numbers(1), since_us=0)
    executor.offer("s", numbers(2))
    while executor.step():
        pass

    assert [result.delay_us for result in executor.results()] == [100, 0]
    assert executor.states["q"].misses == 1
