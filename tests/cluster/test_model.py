from __future__ import annotations

from dataclasses import replace

from tests.benchmarks.cluster.model import Unit, scaled

UNIT = Unit(
    ingest_row_s=1e-6,
    raw_row_bytes=20,
    rollup_node_s=1e-6,
    rollup_node_bytes=10,
    publish_node_s=1e-5,
    published_node_bytes=50,
    publish_node_mb=0.001,
    commit_ms=20,
    commit_bytes=1000,
    listed_file_us=10,
)


def test_the_model_multiplies_what_one_of_each_costs() -> None:
    found = scaled(UNIT)

    assert (found["rows_a_second"], found["rows_a_batch"]) == (115_741, 6_944_444)
    # A day's rows at a microsecond each are 10,000 s of one core, of 86,400.
    assert found["ingest_cores"] == 0.1
    assert found["raw_gb_a_day"] == 200
    # A batch a minute touches three levels of a million devices.
    assert (found["publish_s_of_one_core"], found["publish_share_of_its_time"]) == (30, 0.5)
    assert found["driver_mb_for_a_publish"] == 3000
    assert found["published_gb"]["1m"] == 2 * 1440 * 50 / 1000
    assert (found["log_entries_a_day"], found["writes_a_day"]) == (4320, 10_080)


def test_a_cost_that_doubles_doubles_what_it_comes_to() -> None:
    found = scaled(replace(UNIT, ingest_row_s=2e-5, raw_row_bytes=40))

    assert found["ingest_cores"] == 2.3
    assert found["raw_gb_a_day"] == 400
