from __future__ import annotations

import json
import time

import pytest

from lakehouse.settings import Settings
from lakehouse.spark.deviations import Frame
from quality import checkpoint
from quality.checkpoint import judge, report_page
from quality.gate import GateFailed

pytestmark = pytest.mark.slow


def _totals(**wrong: float) -> Frame:
    well = {
        "imbalance": 0,
        "raw_gap": 0,
        "quarantine_gap": 0,
        "unfinished_corrections": 0,
        "rejected_share": 0.1,
    }
    return Frame("totals", (), [well | wrong])


def _raw(*gaps: int) -> Frame:
    metrics = ("without_event_time", "out_of_bounds", "not_numbers", "without_origin", "repeated_identities")
    rows = [{"batch": i, "gap_to_ledger": gap, **dict.fromkeys(metrics, 0)} for i, gap in enumerate(gaps, 1)]
    return Frame("raw", ("batch",), rows)


def test_frames_without_deviation_pass_every_rule(checked_home: Settings) -> None:
    verdicts = judge(checked_home, "telemetry", [_totals(), _raw(0, 0)])

    assert len(verdicts) == 11
    assert all(verdict.success for verdict in verdicts)
    assert report_page(checked_home.layout).is_file()


def test_a_failed_rule_says_what_was_found_where_and_what_was_expected(checked_home: Settings) -> None:
    verdicts = judge(checked_home, "telemetry", [_totals(rejected_share=0.75), _raw(0, 3, 1)])

    failed = [verdict for verdict in verdicts if not verdict.success]
    error = str(GateFailed("telemetry", failed, report_page(checked_home.layout)))

    assert "totals.rejected_share is 0.75, expected at most 0.5: " in error
    assert "raw.gap_to_ledger is 3 (batch 2), expected at most 0: " in error
    assert f"report: {checked_home.home}/reports/site/index.html" in error


def test_what_another_process_added_to_the_project_stays(checked_home: Settings) -> None:
    judge(checked_home, "alpha", [_totals()])
    own = checkpoint.OPENED.pop()
    # A process of its own opens the project from its files.
    judge(checked_home, "beta", [_totals()])
    checkpoint.OPENED[:] = [own]

    judge(checked_home, "gamma", [_totals()])

    project = (checked_home.layout.reports / "gx" / "great_expectations.yml").read_text("utf-8")
    assert all(f"  {name}:" in project for name in ("alpha", "beta", "gamma"))
    assert checkpoint.OPENED[0] is not own


def test_pages_show_the_sentence_of_a_failed_rule(checked_home: Settings) -> None:
    judge(checked_home, "telemetry", [_totals(raw_gap=7)])

    (page,) = (checked_home.layout.reports / "site" / "validations").rglob("*.html")
    assert (
        "The raw table holds exactly the rows that the ledger calls accepted, less those"
        in page.read_text("utf-8")
    )


def test_results_hold_no_values_of_rows(checked_home: Settings) -> None:
    judge(checked_home, "telemetry", [_raw(0, 3)])

    (result,) = (checked_home.layout.reports / "gx" / "uncommitted" / "validations").rglob("*.json")
    found = json.loads(result.read_text("utf-8"))["results"]
    assert {name for item in found for name in item["result"]} == {"observed_value"}


def test_only_the_newest_results_of_each_stream_are_kept(checked_home: Settings) -> None:
    few = checked_home.model_copy(
        update={"quality": checked_home.quality.model_copy(update={"keep_results": 2})}
    )
    judge(few, "other", [_totals()])

    for _ in range(4):
        judge(few, "telemetry", [_totals()])

    pages = list((checked_home.layout.reports / "site" / "validations").rglob("*.html"))
    assert sorted(page.name for page in pages) == [
        "other-totals.html",
        "telemetry-totals.html",
        "telemetry-totals.html",
    ]


def test_judging_again_in_this_process_takes_less_than_two_seconds_of_a_processor(
    checked_home: Settings,
) -> None:
    judge(checked_home, "telemetry", [_totals(), _raw(0)])

    started = time.process_time()
    judge(checked_home, "telemetry", [_totals(), _raw(0)])

    assert time.process_time() - started < 2
