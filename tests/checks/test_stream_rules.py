"""Rules of a stream's own: rows that are rejected for breaking one, streams that are withheld, and warnings."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from jobs import build_rollups, check_quality, ingest, requeue
from lakehouse.config.rules import Rule
from lakehouse.ingest.quarantine import rejected_records
from lakehouse.settings import Settings
from quality.gate import GateFailed
from quality.history import verified_through
from tests.ingest.no_session import no_session
from tests.ingest.test_revisions import until_it_dies
from tests.support.table_rows import table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Make = Callable[[str], Settings]
Reading = tuple[str, str, str]
CONFIG = """
[streams.thermometers]
event_time = { column = "at", unit = "s" }
identity = ["at", "device"]
keys = ["device"]
measures = ["temp"]
levels = ["1d forever"]
columns.temp = { type = "decimal", decimals = 1 }
source = { path = "landing/*.csv", format = "csv", settle = 0 }
[[streams.thermometers.rules]]
expect = "column_values_to_be_between"
column = "temp"
min_value = -40
max_value = 85
RULE
"""
T0 = 1_769_904_000
# As many crash points as a job passes at most that takes in records of a file, or rejected ones again.
PASSED = 16


def settings_of(lakehouse_of: Make, rule: str) -> Settings:
    return lakehouse_of(CONFIG.replace("RULE", rule))


def land(settings: Settings, name: str, temps: list[str]) -> None:
    folder = settings.home.parent / "landing"
    folder.mkdir(exist_ok=True)
    rows = "".join(f"{T0 + 60 * number},{name},{temp}\n" for number, temp in enumerate(temps))
    (folder / f"{name}.csv").write_text("at,device,temp\n" + rows)


def taken_in(settings: Settings, session: SparkSession) -> dict[str, Any]:
    figures = ingest.run(settings, session, "thermometers")
    build_rollups.run(settings, session, "thermometers")
    return figures


def test_a_row_that_breaks_a_rule_is_rejected_with_it_and_comes_in_once_the_rule_is_changed(
    lakehouse_of: Make, session: SparkSession
) -> None:
    settings = settings_of(
        lakehouse_of, 'on_failure = "quarantine"\nsays = "Thermometers measure -40 to 85 degC."'
    )
    land(settings, "a", ["20.5", "85.0", "85.1", "", "-40.1"])

    figures = taken_in(settings, session)

    assert (figures["accepted"], figures["quarantined"]) == (3, 2)
    assert table_rows(settings.layout.quarantine("thermometers"), "reason", "detail") == [
        ("rule_temp_be_between", "temp is '85.1'; the rule: Thermometers measure -40 to 85 degC."),
        ("rule_temp_be_between", "temp is '-40.1'; the rule: Thermometers measure -40 to 85 degC."),
    ]
    wider = settings_of(lakehouse_of, 'on_failure = "quarantine"').config
    assert wider is not None
    settings = lakehouse_of(wider.read_text().replace("max_value = 85", "max_value = 90"))
    requeue.run(settings, session, "thermometers")
    temps = [row[0] for row in table_rows(settings.layout.raw("thermometers"), "temp")]
    assert sorted(temp for temp in temps if temp is not None) == [
        Decimal("20.5"),
        Decimal("85.0"),
        Decimal("85.1"),
    ]
    check_quality.run(settings, session, "thermometers")


def test_a_rule_that_withholds_fails_the_check_with_its_sentence(
    lakehouse_of: Make, session: SparkSession
) -> None:
    settings = settings_of(lakehouse_of, 'on_failure = "withhold"\nmostly = 0.8')
    land(settings, "a", ["20.5", "21", "22", "23", "99"])
    taken_in(settings, session)
    check_quality.run(settings, session, "thermometers")

    land(settings, "b", ["20.5", "21", "22", "98", "99"])
    taken_in(settings, session)

    with pytest.raises(GateFailed, match=r"temp is at least -40 and at most 85: 2 of 5 new rows do not"):
        check_quality.run(settings, session, "thermometers")


def test_a_rule_that_warns_is_told_and_stops_nothing(
    lakehouse_of: Make, session: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    settings = settings_of(lakehouse_of, 'on_failure = "warn"')
    land(settings, "a", ["20.5", "99"])
    taken_in(settings, session)

    with caplog.at_level(logging.WARNING):
        figures = check_quality.run(settings, session, "thermometers")

    assert (figures["failed"], figures["warned"]) == (0, 1)
    assert "1 of 2 new rows do not" in caplog.text


def test_a_rule_that_is_changed_judges_all_rows_again(lakehouse_of: Make, session: SparkSession) -> None:
    settings = settings_of(lakehouse_of, 'on_failure = "withhold"')
    land(settings, "a", ["20.5", "21"])
    taken_in(settings, session)
    check_quality.run(settings, session, "thermometers")
    narrower = settings.config
    assert narrower is not None

    settings = lakehouse_of(narrower.read_text().replace("max_value = 85", "max_value = 20.7"))

    with pytest.raises(GateFailed, match="1 of 2 new rows do not"):
        check_quality.run(settings, session, "thermometers")


def test_every_rule_that_fails_is_named_with_its_count_its_share_and_masked_examples(
    lakehouse_of: Make, session: SparkSession
) -> None:
    settings = settings_of(
        lakehouse_of,
        'on_failure = "withhold"\n[[streams.thermometers.rules]]\nexpect = "column_values_to_match_regex"\n'
        'column = "device"\nregex = "^x"\non_failure = "withhold"\nsays = "Devices begin with x."',
    )
    land(settings, "lab-7", ["20.5", "99", "21", "-41"])
    taken_in(settings, session)

    with pytest.raises(GateFailed) as failed:
        check_quality.run(settings, session, "thermometers")

    one, other = (str(verdict) for verdict in failed.value.failed)
    assert one == (
        "rules.temp_be_between: temp is at least -40 and at most 85: 2 of 4 new rows do not (50.00%), "
        "such as lab-7.csv:3: temp is 99.0; lab-7.csv:5: temp is -41.0"
    )
    assert other.startswith(
        "rules.device_match_regex: Devices begin with x: 4 of 4 new rows do not (100.00%)"
    )
    assert "device is 'xxx-9'; " in other
    assert "lab-7'" not in other


def test_the_history_names_the_sources_that_break_a_rule_most_and_counts_what_rules_reject(
    lakehouse_of: Make, session: SparkSession
) -> None:
    settings = settings_of(
        lakehouse_of,
        'on_failure = "warn"\n[[streams.thermometers.rules]]\nexpect = "column_values_to_not_be_null"\n'
        'column = "temp"\non_failure = "quarantine"',
    )
    land(settings, "quiet", ["20.5", "99", ""])
    land(settings, "broken", ["98", "99", "-41"])
    taken_in(settings, session)
    check_quality.run(settings, session, "thermometers")

    columns = ("table", "says", "success", "judged", "broken", "sources", "seen")
    rules = [row for row in table_rows(settings.layout.quality, *columns) if row[3] is not None]
    (rejected,) = (row for row in rules if row[0] == "rejections")
    (warned,) = (row for row in rules if row[0] == "warnings")
    assert rejected[1:] == ("temp is there", True, 6, 1, {}, "1 of 6 new records were rejected")
    assert warned[2:6] == (False, 5, 4, {"device broken": 3, "device quiet": 1})
    assert list(warned[5]) == ["device broken", "device quiet"]
    assert verified_through(settings.layout.quality, "thermometers") == 1


def test_a_figure_of_all_new_rows_is_judged_and_named(lakehouse_of: Make, session: SparkSession) -> None:
    settings = settings_of(
        lakehouse_of,
        '[[streams.thermometers.rules]]\nexpect = "column_mean_to_be_between"\ncolumn = "temp"\n'
        'max_value = 21\non_failure = "withhold"\n[[streams.thermometers.rules]]\n'
        'expect = "table_row_count_to_be_between"\nmin_value = 5\non_failure = "withhold"',
    )
    land(settings, "a", ["20", "21", ""])
    taken_in(settings, session)
    land(settings, "b", ["24"])
    taken_in(settings, session)

    with pytest.raises(GateFailed) as failed:
        check_quality.run(settings, session, "thermometers")

    assert [str(verdict) for verdict in failed.value.failed] == [
        "rules.temp_mean_to_be_between: the mean of temp is at most 21: it is 21.66666667 in 4 new rows",
        "rules.table_row_count_to_be_between: the number of new rows is at least 5: it is 4 in 4 new rows",
    ]


def test_a_stream_whose_rule_warns_is_published(lakehouse_of: Make, session: SparkSession) -> None:
    settings = settings_of(lakehouse_of, 'on_failure = "warn"')
    land(settings, "a", ["20.5", "99"])
    taken_in(settings, session)
    check_quality.run(settings, session, "thermometers")

    assert verified_through(settings.layout.quality, "thermometers") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "passing"),
    [(1, None), (2, None), *(pytest.param(each, each, marks=pytest.mark.long) for each in range(PASSED + 1))],
)
def test_however_a_rule_changes_and_jobs_die_each_record_is_accepted_rejected_or_repeated_once(
    lakehouse_of: Make, seed: int, passing: int | None
) -> None:
    """A record is accepted by the rule of the time when it was judged, and judged again by each requeue.

    Each job dies at the crash point that it passes after ``passing`` others; in the usual suite at any one.
    """
    dice, number = random.Random(seed), 0
    accepted, rejected, landed = set[Reading](), list[Reading](), list[Reading]()
    job: Callable[..., dict[str, Any]]
    for _ in range(4):
        most = dice.choice([20, 50, 85, 120])
        declared = CONFIG.replace("RULE", 'on_failure = "quarantine"')
        settings = lakehouse_of(declared.replace("max_value = 85", f"max_value = {most}"))
        if rejected and dice.random() < 0.7:
            job, judged, rejected = requeue.run, rejected, []
        else:
            new = [(str(T0 + number + at), "a", str(dice.randint(-60, 140))) for at in range(8)]
            again = dice.sample(landed, min(len(landed), 3))
            job, judged, number = ingest.run, [*new, *again, new[0]], number + len(new)
            landed += new
            folder = settings.home.parent / "landing"
            folder.mkdir(exist_ok=True)
            lines = "".join(",".join(row) + "\n" for row in judged)
            (folder / f"{number}.csv").write_text("at,device,temp\n" + lines)
        for row in judged:
            if -40 <= int(row[2]) <= most:
                accepted.add(row)
            else:
                rejected.append(row)
        work = partial(job, settings, no_session(settings), "thermometers")
        is_dead = until_it_dies(work, dice.randrange(PASSED) if passing is None else passing)
        assert not is_dead or passing != PASSED
        work()
        raw = table_rows(settings.layout.raw("thermometers"), "event_us // 1000000", "device", "temp")
        assert sorted((str(at), device, str(int(temp))) for at, device, temp in raw) == sorted(accepted)
        counts = ("received + requeued", "accepted", "quarantined", "duplicates")
        batches = table_rows(settings.layout.ledger("thermometers"), *counts)
        assert all(came == sum(became) for came, *became in batches)
        assert len(table_rows(settings.layout.quarantine("thermometers"), "reason")) == sum(
            batch[2] for batch in batches
        )
        open_records = rejected_records(settings.layout, "thermometers", len(batches))
        assert sum(each.open for each in open_records.values()) == len(rejected)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"expect": "column_values_to_be_between", "column": "temp"}, "min_value, max_value or both"),
        ({"expect": "column_values_to_be_in_set", "column": "temp"}, "value_set"),
        (
            {"expect": "column_values_to_be_between", "column": "temp", "min_value": float("inf")},
            "finite number",
        ),
        (
            {"expect": "column_values_to_be_betwen", "column": "temp", "min_value": 1},
            "did you mean column_values_to_be_between",
        ),
        (
            {"expect": "column_values_to_match_json_schema", "column": "temp"},
            "one of column_values_to_be_between, ",
        ),
        ({"expect": "multicolumn_sum_to_equal", "column_list": ["temp"], "sum_total": 1}, "at least 2 items"),
        ({"expect": "column_values_to_not_be_null", "column": "temp", "min_value": 1}, "has no min_value"),
        (
            {
                "expect": "column_values_to_not_be_null",
                "column": "temp",
                "mostly": 0.9,
                "on_failure": "quarantine",
            },
            "mostly = 1",
        ),
        (
            {
                "expect": "column_mean_to_be_between",
                "column": "temp",
                "min_value": 1,
                "on_failure": "quarantine",
            },
            "about no single row; expected warn or withhold",
        ),
        ({"expect": "column_values_to_match_regex", "column": "temp", "regex": "("}, "a regular expression"),
        ({"expect": "column_values_to_match_regex", "column": "temp", "regex": "(?=a)"}, "that Arrow can"),
    ],
)
def test_a_rule_that_means_nothing_is_refused(rule: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        Rule.model_validate(rule)


def test_columns_of_other_types_are_not_compared(lakehouse_of: Make) -> None:
    pair = 'expect = "column_pair_values_to_be_equal"\ncolumn_A = "temp"\ncolumn_B = "device"'
    own = CONFIG.partition("expect =")[0] + pair

    with pytest.raises(
        ValueError, match=r"rules\.0\.column_A: found 'temp' of type decimal, 'device' of type string"
    ):
        lakehouse_of(own)


@pytest.mark.parametrize("value", ['"warm"', "true"])
def test_values_of_another_type_than_the_column_are_refused(lakehouse_of: Make, value: str) -> None:
    rule = f'expect = "column_values_to_be_in_set"\ncolumn = "temp"\nvalue_set = [1, {value}]'

    with pytest.raises(ValueError, match=r"rules\.0\.value_set: found .* for 'temp' of type decimal"):
        lakehouse_of(CONFIG.partition("expect =")[0] + rule)


def test_a_rule_about_no_column_of_the_stream_is_a_problem_with_a_suggestion(lakehouse_of: Make) -> None:
    with pytest.raises(ValueError, match=r"rules\.0\.column.*'tmp'.*temp"):
        lakehouse_of(CONFIG.replace('column = "temp"', 'column = "tmp"').replace("RULE", ""))
