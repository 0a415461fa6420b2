from __future__ import annotations

import pytest

from lakehouse.config.problems import ConfigError
from lakehouse.simulator.plan import Delay, Faults, Plan


def test_every_problem_is_told_at_once() -> None:
    plan = Plan(
        "telemetry",
        rows=0,
        duration_us=0,
        sources=0,
        files=0,
        seed=-1,
        delay=Delay("none", mean_us=5, max_us=1),
        faults=Faults(late=0.5, duplicates=0.9, conflicts=-0.1, bad_clocks=0.3, dirt=2, gaps=0.95),
    )

    with pytest.raises(ConfigError) as refused:
        plan.check()

    assert [problem.key for problem in refused.value.problems] == [
        *("rows", "duration", "devices", "seed", "files"),
        *("conflicts", "dirt", "gaps"),
        "duplicates, conflicts, bad_clocks, dirt",
        *("late_share", "delay_mean, delay_max"),
    ]


def test_a_problem_says_what_was_found_and_what_is_expected() -> None:
    with pytest.raises(ConfigError, match="files: found 20; expected 1 to 10, the number of rows"):
        Plan("flows", 10, files=20).check()


def test_the_defaults_can_be_carried_out() -> None:
    Plan("telemetry", 1000).check()


def test_a_number_of_rows_below_one_is_not_held_against_the_files_too() -> None:
    with pytest.raises(ConfigError, match=r"1 problem\n  rows: found -5; expected at least 1$"):
        Plan("flows", -5).check()
