"""Every benchmark's ``--quick`` runs to its end and prints the figures that documents name; times are not judged."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.benchmarks import ingest_steps
from tests.benchmarks.late_join import spark_overhead

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
# By benchmark and part: figures that must be there. Where a data set is absent, a part may say so instead.
PRINTED: dict[str, dict[str, set[str]]] = {
    "ingest": {
        "ingest": {
            *("rows_per_s", "ratio_to_plain_spark", "ratio_with_identity", "ratio_dirty"),
            *("ratio_parquet", "ratio_parquet_with_identity", "ratio_large", "ratio_large_with_identity"),
            *("cpu_ratio_to_plain_spark", "ask_ms", "demo_s"),
        }
    },
    "quality": {
        "known_faults": {"known"},
        "time_rules": {f"{rule} new, s at 10000" for rule in ("silent", "resets")},
        "profile_cost": {"profile, % at 1000", "rules, % at 1000"},
        "ten_rules": {
            "check, ten that warn, jobs at 1000",
            "Great Expectations on Spark, counts, jobs at 1000",
        },
    },
    "conditions": {"conditions": {"decimal_1000_ms", "decimal_1000_duckdb_ms"}},
    # Its parts start clusters.
    "cluster": {},
    # Its parts start processes with a Spark each.
    "engine": {},
    "control": {
        "control": {"change_over_file", "change_over_synced_file", "read_800_over_files", "sqlalchemy_ms"}
    },
    "commits": {
        "commits": {
            "one_row_ms",
            "one_row_speedup",
            "rows_1000_speedup",
            "after_100_ms",
        },
        "encodings": {"nodes_mb_ratio", "raw_write_ratio"},
    },
    "ingest_history": {"ingest_history": {"history"}},
    "remembered": {"remembered": {"remembered"}},
    "revisions": {"revisions": {"revisions"}},
    "ingest_batches": {"ingest_batches": {"local_s_at_1000", "spark_with_identity_jobs_at_1000"}},
    "ingest_steps": {"ingest_steps": {"rows", "with identity", "stages"}},
    "fold": {"fold": {"cores", "folds"}},
    "join_aggregate": {
        "speed": {
            "window_s",
            "tuples_per_s",
            "bytes_per_live_tuple",
            "speedup_over_ic",
            "least_speedup_over_ic",
        },
        "exact": {"exact_times_double"},
        "figures": {"seconds_per_tuple", "bytes"},
        "windows": {"windows_us_per_tuple", "windows_bytes", "maximum_us_per_tuple"},
        "chains": {
            *("chain_sum_ms_10000_rows_1000_keys", "chain_extremes_ms_10000_rows_1000_keys"),
            *("circle_sum_ms_10000_rows_100_keys", "circle_extremes_ms_10000_rows_100_keys"),
        },
        "drift": {"float_drift"},
        "peers": {"peers"},
        "fire": {"fires"},
        "state": {"state_whole_s", "state_segments_s", "state_segments_bytes", "state_hour"},
        "waiting": {"waiting_periods", "waiting_periods_met", "waiting_slack_to_best"},
        "alarm_history": {"alarms_kept_cpu_s_at_1000", "alarms_publish_cpu_s_at_1000"},
    },
    "late_join": {
        "streams": {"stream_D1", "stream_D2"},
        "figures": {
            *("wait_ratio_to_k_slack", "memory_ratio_to_k_slack", "periods", "periods_met"),
            "per_source_periods_met",
        },
        "figures_d2": {"d2_wait_ratio_to_k_slack", "d2_memory_ratio_to_k_slack", "d2_periods_met"},
        "figures_one_ball": {"one_ball_periods_met", "one_ball_per_source_periods_met"},
        "sweeps": {"sweeps"},
        "paper_settings": {"paper_settings"},
        "real": {
            "real_periods",
            "real_periods_met",
            "real_memory_ratio_to_k_slack",
            "real_skipped",
            "real_per_source_periods_met",
        },
        "multiway": {"multiway_periods", "multiway_periods_met", "multiway_held_to_best"},
        "short_windows": {"short_windows", "short_windows_skipped"},
        "registered": {"registered"},
        "silences": {"silences"},
        "speed": {"equality_tuples_per_s", "distance_times_real_time"},
        "repair": {"repair_cost_ratio"},
        "state": {"state_whole_s", "state_segments_s", "state_segments_bytes", "state_cold_s"},
    },
    "maintenance": {"maintenance": {"batches", "batch_s_flat", "files_bounded", "log_entries_bounded"}},
    "multiway_join": {
        "sites": {"cost_ratio_to_lottery", "heuristic_gap"},
        "series": {"last_interval_ratio_to_lottery"},
        "scenarios": {"scenario_ratio_to_lottery", "sending_ratio_to_lottery"},
        "hashed": {"hashed_ratio_to_lottery", "hashed_planned_by_moved"},
        "orders": {"heuristic_gap_of_trips", "plan_ms", "plan_ms_20_sites"},
        "choices": {
            "choices_worst_ratio_to_plain",
            "choices_worst_ratio_to_pruned",
            "choices_share_above_1_3",
        },
    },
    "query_batch": {
        "query_batch": {
            *("pairs_s_at_2000", "pairs_mb_at_2000", "count_s_at_2000", "count_mb_at_2000"),
            *("plain_pairs_s_at_2000", "plain_count_s_at_2000", "ten_s"),
        }
    },
    "rollup": {
        "space": {"base_slots", "nodes", "nodes_bound"},
        "error": {"bytes_ratio", "p95_relative_error", "histories_absent"},
        "intervals": {"interval_trials", "interval_violations"},
        "widths": {"interval_widths", "sure_intervals_wrong"},
        "aaquery": {"aaquery_error_paper", "aaquery_error_ours"},
        "speed": {"inserts_per_s", "queries_per_s", "peers_per_s"},
        "serving": {"serving_rows", "range_sum_p95_ms", "typed_p95_ms", "raw_scan_over_range_sum"},
        "publishing": {"publish_changed_p95_s", "publish_anew_s", "changed_mb", "range_sum_changed_p95_ms"},
        "publish_history": {
            "publish_s_at_10",
            "publish_cpu_s_at_100",
            "metrics_all_cpu_s_at_100",
            "macros_copied_cpu_s",
        },
        "geometry": {"listed"},
    },
    "scheduling": {
        "figures": {"peak_tuples", "mean_delay_ms", "deadline_misses", "not_lowest"},
        "order_and_turns": {"unordered_peak_tuples", "unordered_mean_delay_ms"},
        "executor": {"speedup_over_written_order", "speedup_of_sharing"},
        "overload": {"overload_limit_bytes", "overload"},
    },
    "small_batch": {"small_batch": {"all_s_at_0", "cpu_s_at_0", "publish_s_at_20000", "nodes_at_20000"}},
    "sources": {
        "manifests": {
            "first_s_at_10",
            "next_s_at_10",
            "stream_s_at_10",
            "digest_cpu_s_per_gb",
        },
        "listing": {"all_requests_at_2000", "next_requests_at_20000", "all_s_at_20000", "next_s_at_20000"},
        "parser": {"csv", "zeek_tsv", "mqtt", "chirpstack"},
        "documents": {"ndjson", "gpx", "green-button", "geojson"},
        "captures": {"pcap", "pcapng"},
        "local_times": {"utc_s", "zone_s", "zone_with_hour_s", "with_hour_over_without"},
        "declared": {"all"},
    },
    "start": {"start": {"archive_s", "without_s", "speedup"}},
    "web": {
        "web": {
            *("start_s", "ask_1_p95_ms", "ask_8_p95_ms", "ask_64_p95_ms", "known_p95_ms", "chart_p95_ms"),
            *(
                "over_duckdb_alone",
                "raw_scan_over_ask",
                "tenth_mb",
                "end_mb",
                "listeners_held",
                "listeners_refused",
            ),
        }
    },
}
# These need Spark and nothing of a process of their own: they run in the session that tests share.
IN_THE_SESSION = (
    "commits",
    "fold",
    "ingest",
    "ingest_history",
    "ingest_batches",
    "ingest_steps",
    "maintenance",
    "query_batch",
    "small_batch",
)
ABSENT = {"fire": "fire_skipped", "executor": "executor_skipped", "overload": "overload_skipped"}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", [name for name in PRINTED if name not in IN_THE_SESSION])
def test_a_quick_run_prints_its_figures_part_by_part(name: str) -> None:
    command = [sys.executable, "-m", f"tests.benchmarks.{name}", "--quick", "--json"]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr[-4000:]
    found = {part.pop("part"): set(part) for part in map(json.loads, done.stdout.splitlines())}
    assert list(found) == list(PRINTED[name])
    for part, figures in PRINTED[name].items():
        assert found[part] >= figures or ABSENT.get(part) in found[part], f"{part}: {sorted(found[part])}"


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", IN_THE_SESSION)
def test_a_quick_run_in_a_session_that_is_there_has_its_figures(
    name: str, on_spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A benchmark ends its session, and other tests go on with this one.
    monkeypatch.setattr(type(on_spark), "stop", lambda _: None)

    found = importlib.import_module(f"tests.benchmarks.{name}").figures(True)

    assert json.loads(json.dumps(found)).keys() >= PRINTED[name][name]


def test_every_benchmark_is_run() -> None:
    written = [path for path in HERE.rglob("*.py") if "\n    run_parts(" in path.read_text(encoding="utf-8")]
    names = {path.parent.name if path.stem == "__main__" else path.stem for path in written} - {"parts"}

    assert names == set(PRINTED)


def test_what_a_stopwatch_times_is_there() -> None:
    """Steps are named by text: a renamed function once ended the benchmark of a join's Spark job."""
    ingest_steps.watched()
    spark_overhead.watched()
