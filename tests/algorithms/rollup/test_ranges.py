"""The macros have the same rule: test_point.py compares with them, and test_one_rule.py with cases."""

from __future__ import annotations

import random

import duckdb

from lakehouse.algorithms.rollup.ranges import Node, total


def test_whole_sums_of_up_to_128_bits_become_the_doubles_of_duckdb() -> None:
    dice = random.Random(1)
    sums = [dice.choice((1, -1)) * dice.getrandbits(dice.randint(50, 126)) for _ in range(2_000)]
    with duckdb.connect() as connection:
        listed = ", ".join(f"'{one}'" for one in sums)
        rows = connection.execute(f"SELECT unnest([{listed}])::HUGEINT::DOUBLE").fetchall()

    found = [total([Node(1, 0.0, one, 0.0, 0.0, 0.0, 1, 1, 1.0)], 1.0, True).value for one in sums]

    assert found == [double for (double,) in rows]
    assert found != [float(one) for one in sums]
