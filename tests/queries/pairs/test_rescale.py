"""Batches cut into other buckets than those before, without Spark: each pair is found once, online or by a repair."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakehouse.algorithms.late_join.contract import Clock
from lakehouse.queries.pairs.query import PairsQuery
from lakehouse.queries.pairs.repair import BucketRepair
from lakehouse.queries.pairs.rows import as_batch, in_buckets
from lakehouse.queries.runtime.tasks.arrow_sql import one_batch
from lakehouse.queries.runtime.tasks.bucket import LOG, BucketResult
from tests.oracles.late_join.nested_loop import NestedLoop
from tests.queries.pairs.test_bucket import WINDOW, query, rows_of, task
from tests.queries.pairs.test_repair_in_arrow import pairs_of, time_of
from tests.queries.rescaled_steps import Rescaled, rows_of_buckets

SCALE = 10_000


@pytest.mark.parametrize("policy", ["needed_slack", "per_source"])
@pytest.mark.parametrize("condition", ["equality", "band", "distance"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_whatever_the_buckets_of_batches_are_all_pairs_are_found_once(
    condition: str, seed: int, policy: str
) -> None:
    """Lost attempts and ended processes among them; half of the rows are late, many by more than the slack."""
    dice = np.random.default_rng(seed)
    # What is judged by other rows of a bucket would depend on how rows are cut.
    asked = replace(query(condition, recall=0.3, policy=policy, scale=SCALE), clock=Clock())
    steps, answers, batches = started(asked), list[dict[int, BucketResult]](), some_batches(dice)
    for rows in batches:
        buckets = int(dice.choice([1, 2, 3, 4, 6]))
        if dice.random() < 0.3:
            steps.run(rows.slice(0, int(dice.integers(rows.num_rows))), buckets, is_lost=True)
        if dice.random() < 0.3:
            steps.end_process()
        before = markers(steps)
        answers.append(steps.run(rows, buckets))
        for bucket, own in markers(steps).items():
            of_it = [each for parent, each in before.items() if (parent - bucket) % steps.common == 0]
            assert all(own[part] >= each[part] for each in of_it for part in own)
    online = pairs_of(chain(*(each.values() for each in answers)))
    late = repaired(asked, steps, batches, answers)
    expected = Counter[tuple[int, int]]()
    yardstick = NestedLoop(asked.condition, WINDOW * SCALE)
    for rows in batches:
        found = yardstick.process(as_batch(rows)).pairs
        expected.update(zip(found.left.tolist(), found.right.tolist(), strict=True))
    assert online + late == expected
    assert online and late


def some_batches(dice: np.random.Generator) -> list[pa.Table]:
    """Return eight batches of twenty to fifty rows."""
    ends = np.cumsum(dice.integers(20, 50, 8))
    behind = np.where(dice.random(ends[-1]) < 0.5, -dice.integers(0, 30, ends[-1]), 0)
    columns = (
        dice.integers(0, 2, ends[-1]),
        behind,
        dice.integers(0, 4, ends[-1]),
        dice.integers(-4, 5, ends[-1]),
    )
    drawn = [(*row, "a", row[2]) for row in zip(*(column.tolist() for column in columns), strict=True)]
    return [stretched(rows_of(drawn[start:end], start)) for start, end in pairwise([0, *ends.tolist()])]


def stretched(rows: pa.Table) -> pa.Table:
    """Return rows at times that are some steps of slack apart."""
    for name in ("event_us", "arrival_us"):
        rows = rows.set_column(rows.schema.get_field_index(name), name, pc.multiply(rows[name], SCALE))
    return rows


def started(asked: PairsQuery) -> Rescaled:
    """Return a query without rows."""
    Rescaled.end_process()
    return Rescaled(lambda rows, buckets: placed(unplaced(rows), asked, buckets), partial(task, asked))


def placed(rows: pa.Table, asked: PairsQuery, buckets: int) -> pa.Table:
    """Return rows in their buckets."""
    return pa.Table.from_batches([in_buckets(one_batch(rows), asked.condition, buckets)])


def unplaced(rows: pa.Table) -> pa.Table:
    """Return rows as they are before they are cut into buckets."""
    return rows.drop_columns(["bucket"])


def repaired(
    asked: PairsQuery, steps: Rescaled, batches: list[pa.Table], answers: list[dict[int, BucketResult]]
) -> Counter[tuple[int, int]]:
    """Return the pairs that repairs find, one for the batches of each scale."""
    taken = [
        rows.append_column("taken", pa.array([number] * rows.num_rows, pa.int64()))
        for number, rows in enumerate(batches)
    ]
    time = time_of(chain(*(each.values() for each in answers)))
    found, ends = list[BucketResult](), [*(scale.since for scale in steps.scales[1:]), len(batches) + 1]
    for scale, end in zip(steps.scales, ends, strict=True):
        log = pa.concat_tables([rows_of_buckets(each, LOG) for each in answers[scale.since - 1 : end - 1]])
        late = log.filter(pc.equal(log["what"], "missed"))
        raw = pa.concat_tables(taken[: end - 1], promote_options="permissive")
        rows = placed(unplaced(raw), asked, scale.buckets)
        work = BucketRepair(asked, scale.buckets, time, whole_from_us=0)
        for bucket in set(late["bucket"].to_pylist()):
            both = (each.filter(pc.equal(each["bucket"], bucket)) for each in (rows, late))
            found.append(work(bucket, pa.concat_tables(both, promote_options="permissive")) or BucketResult())
    return pairs_of(found)


@pytest.mark.parametrize("policy", ["needed_slack", "per_source", "paper"])
def test_a_bucket_goes_on_with_what_the_closest_one_has_learned_and_the_longest_slack(policy: str) -> None:
    asked = query(policy=policy, scale=SCALE)
    steps = started(asked)
    drawn = [(number % 2, -20 * (number % 7 == 0), number % 3, 1, "a", number % 2) for number in range(300)]
    rows = stretched(rows_of(drawn, 0))
    first = metrics_of(steps.run(rows, 2))
    learned = counters(steps, "policy")
    then = metrics_of(steps.run(rows.slice(0, 0), 4))
    assert counters(steps, "policy") == {bucket: learned[bucket % 2] for bucket in range(4)}
    back = metrics_of(steps.run(rows.slice(0, 0), 1))
    assert counters(steps, "policy") == {0: learned[0]}
    for name in ("left_slack_us", "right_slack_us"):
        longest = max(each[name] for each in first)
        assert [each[name] for each in then] == [each[name] for each in (*first, *first)]
        assert [each[name] for each in back] == [longest]
    # Every row that was held is held by one of the four, and by the last one unless another has passed its time.
    assert sum(each["held"] for each in then) == sum(each["held"] for each in first) > 0
    assert 0 < back[0]["held"] <= sum(each["held"] for each in first)


def metrics_of(results: Mapping[int, BucketResult]) -> list[dict[str, Any]]:
    """Return the metrics of each bucket."""
    return [dict(each.metrics) for each in results.values()]


def markers(steps: Rescaled) -> dict[int, dict[str, int]]:
    """Return by bucket up to when the rows of each side are gone."""
    rows = steps.states[-1].to_pylist() if steps.states else []
    ends = [row for row in rows if row["content"] is None]
    return {
        row["bucket"]: {own["part"]: own["leave_us"] for own in ends if own["bucket"] == row["bucket"]}
        for row in ends
    }


def counters(steps: Rescaled, part: str) -> dict[int, bytes]:
    """Return a counter of each bucket after the last batch."""
    rows = steps.states[-1].to_pylist()
    return {row["bucket"]: row["content"] for row in rows if row["part"] == part}
