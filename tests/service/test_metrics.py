from __future__ import annotations

import json
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path
from urllib.request import urlopen

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from prometheus_client.parser import text_string_to_metric_families

from lakehouse.ingest.sources.manifest import LandedFile, Manifest
from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.service.freshness import Freshness
from lakehouse.service.metrics import exposition
from lakehouse.service.metrics_server import start_server
from lakehouse.service.tasks import Task
from lakehouse.storage.control.lease import lease
from lakehouse.storage.control.outcomes import record
from lakehouse.storage.layout import Home
from lakehouse.storage.stores.store_path import Location
from tests.queries.chosen import declare as declare_selections
from tests.queries.chosen import run_by_hand as run_selection_by_hand
from tests.support.heartbeats import served

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]
DASHBOARD = Path(__file__).parents[2] / "infra" / "grafana" / "tidemark.json"


def samples(text: str) -> Samples:
    families = text_string_to_metric_families(text)
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def value(found: Samples, name: str, **labels: str) -> float:
    return found[name, tuple(sorted(labels.items()))]


def commit(table: Location, rows: pa.Table, *removed: str) -> None:
    """Append rows to a Delta table, and remove files of it, as one more commit, as far as its log is read here."""
    log = Path(table) / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    version = len(list(log.glob("*.json")))
    pq.write_table(rows, table / f"{version}.parquet")
    added = {"add": {"path": f"{version}.parquet", "size": 1, "stats": "{}"}}
    actions = [*({"remove": {"path": path}} for path in removed), added]
    (log / f"{version:020d}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))


def ledger_rows(*batches: tuple[int, int, dict[str, int], list[int]]) -> pa.Table:
    rows = [
        {
            "batch": number,
            "accepted": accepted,
            "quarantined": sum(reasons.values()),
            "duplicates": number,
            "reasons": list(reasons.items()),
            "late": sum(late),
            "lateness": late,
            "newest_us": number * 1_000_000,
        }
        for number, accepted, reasons, late in batches
    ]
    kinds = {
        name: pa.int64() for name in ("batch", "accepted", "quarantined", "duplicates", "late", "newest_us")
    }
    return pa.Table.from_pylist(
        rows,
        pa.schema({**kinds, "reasons": pa.map_(pa.string(), pa.int64()), "lateness": pa.list_(pa.int64())}),
    )


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home as jobs and a service leave it: a ledger, a query, outcomes, a version, a heartbeat."""
    layout = Home(tmp_path / "var")
    batches = (1, 10, {"clock": 2}, [3, 0, 1]), (2, 20, {"clock": 1, "malformed": 4}, [0, 5, 0])
    commit(layout.ledger("alpha"), ledger_rows(*batches))
    aside = Manifest(3, "set_aside", (LandedFile("a", 1, 1),), error="no codec")
    ManifestStore(layout.manifests("alpha")).put_in_place(aside)
    commit(layout.queries("q"), pa.table({"batch": [1, 2, 2], "bytes": [999, 30, 12]}))
    record(layout, "ingest", "alpha", True, datetime.now(UTC), 1.5, {"lag": 42})
    record(layout, "publish", "all", False, datetime.now(UTC), 2.5, {}, "no")
    layout.serving.mkdir(parents=True)
    (layout.serving / "current").write_text("00000007\n")
    fresh, task = Freshness(0), Task("run_queries", "q", object, int)
    fresh.add(2, [100.0, 98.0], 101.0)
    task.tally.add(1.5)
    task.tally.add(7.0)
    task.tally.failures = 3
    served(layout, streams={"alpha": fresh.snapshot()}, tasks=[task.snapshot()])
    return layout


def test_metrics_say_what_ledger_queries_outcomes_and_heartbeat_hold(home: Home) -> None:
    found = samples(exposition(home))

    assert value(found, "tidemark_rows_total", stream="alpha", outcome="accepted") == 30
    assert value(found, "tidemark_rows_total", stream="alpha", outcome="quarantined") == 7
    assert value(found, "tidemark_rows_total", stream="alpha", outcome="duplicates") == 3
    assert value(found, "tidemark_quarantined_rows_total", stream="alpha", reason="clock") == 3
    assert value(found, "tidemark_quarantined_rows_total", stream="alpha", reason="malformed") == 4
    assert value(found, "tidemark_batches_total", stream="alpha") == 2
    assert value(found, "tidemark_newest_event_timestamp_seconds", stream="alpha") == 2
    assert value(found, "tidemark_lag_messages", stream="alpha") == 42
    assert value(found, "tidemark_set_aside_batches", stream="alpha") == 1
    assert value(found, "tidemark_state_bytes", query="q") == 42
    assert value(found, "tidemark_job_ok", job="ingest", stream="alpha") == 1
    assert value(found, "tidemark_job_ok", job="publish", stream="all") == 0
    assert value(found, "tidemark_published_version") == 7
    assert 0 <= value(found, "tidemark_publish_age_seconds") < 60
    assert value(found, "tidemark_freshness_seconds", stream="alpha", quantile="0.5") == 1
    assert value(found, "tidemark_freshness_seconds", stream="alpha", quantile="0.95") == 3
    assert value(found, "tidemark_query_failures_total", query="q") == 3
    assert value(found, "tidemark_task_failures_total", job="run_queries", stream="q") == 3
    assert value(found, "tidemark_service_up") == 0
    assert value(found, "tidemark_heartbeat_age_seconds") < 60


def test_open_and_closed_records_are_those_of_the_published_version(home: Home) -> None:
    counts = [("alpha", "clock", 1, 2), ("alpha", "malformed", 0, 4)]

    found = samples(exposition(home, lambda: counts))

    for stream, reason, *numbers in counts:
        for state, number in zip(("open", "closed"), numbers, strict=True):
            labels = {"stream": stream, "reason": reason, "state": state}
            assert value(found, "tidemark_quarantine_records", **labels) == number


def test_histograms_add_up_bin_by_bin(home: Home) -> None:
    found = samples(exposition(home))
    late = {
        labels: number
        for (name, labels), number in found.items()
        if name == "tidemark_lateness_seconds_bucket"
    }

    assert {dict(labels)["le"]: number for labels, number in late.items()} == {
        "0.002": 3,
        "0.004": 8,
        "0.008": 9,
        "+Inf": 9,
    }
    step = {"job": "run_queries", "stream": "q"}
    for end, count in (("1.0", 0), ("2.0", 1), ("5.0", 1), ("8.0", 2), ("+Inf", 2)):
        assert value(found, "tidemark_batch_seconds_bucket", le=end, **step) == count
    assert value(found, "tidemark_batch_seconds_sum", **step) == 8.5


def test_an_empty_home_has_metrics_too(tmp_path: Path) -> None:
    found = samples(exposition(Home(tmp_path / "nowhere")))

    assert found == {("tidemark_service_up", ()): 0.0}


def test_a_service_shows_at_its_address_what_the_command_prints(home: Home) -> None:
    port = start_server(home, "127.0.0.1", 0)
    with lease(home, home.service), urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        found = samples(answer.read().decode())

    assert value(found, "tidemark_service_up") == 1
    moving = {"tidemark_publish_age_seconds", "tidemark_heartbeat_age_seconds", "tidemark_service_up"}
    assert {s: v for s, v in found.items() if s[0] not in moving} == {
        s: v for s, v in samples(exposition(home)).items() if s[0] not in moving
    }


def test_what_is_new_of_a_ledger_is_added_and_one_that_was_corrected_is_read_again(home: Home) -> None:
    port = start_server(home, "127.0.0.1", 0)

    def accepted() -> float:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            found = samples(answer.read().decode())
        assert found == samples(exposition(home)) | {k: v for k, v in found.items() if "age" in k[0]}
        return value(found, "tidemark_rows_total", stream="alpha", outcome="accepted")

    first = accepted()
    commit(home.ledger("alpha"), ledger_rows((3, 5, {"clock": 1}, [1, 1, 1, 1])))
    grown = accepted()
    # Nothing is new, though there are other files.
    commit(home.ledger("alpha"), ledger_rows((3, 5, {"clock": 1}, [1, 1, 1, 1])), "1.parquet")
    merged = accepted()
    commit(home.corrections("alpha"), pa.table({"number": [1]}))
    commit(home.ledger("alpha"), ledger_rows((3, 2, {}, [])), "2.parquet")

    assert (first, grown, merged, accepted()) == (30, 35, 35, 32)


def expressions(panels: list[dict[str, object]]) -> list[str]:
    found: list[str] = []
    for panel in panels:
        found += [target["expr"] for target in panel.get("targets", [])]  # type: ignore[attr-defined]
        found += expressions(panel.get("panels", []))  # type: ignore[arg-type]
    return found


def test_every_expression_of_the_dashboard_names_metrics_and_labels_that_there_are(home: Home) -> None:
    board = json.loads(DASHBOARD.read_text())
    found = samples(exposition(home, lambda: [("alpha", "clock", 1, 2)]))
    labels: dict[str, set[str]] = {}
    for name, pairs in found:
        labels.setdefault(name, set()).update(key for key, _ in pairs)

    asked = expressions(board["panels"])
    assert len(asked) >= 12
    for expression in asked:
        names = re.findall(r"tidemark_\w+", expression)
        assert names, expression
        for name in names:
            assert name in labels, f"{expression}: no metric {name}"
        for grouped in re.findall(r"by \(([^)]*)\)", expression):
            assert set(map(str.strip, grouped.split(","))) <= set().union(*(labels[n] for n in names)), (
                expression
            )
        for name, matched in re.findall(r"(tidemark_\w+)\{([^}]*)\}", expression):
            assert set(re.findall(r"(\w+)\s*(?:=~|!=|=)", matched)) <= labels[name], expression
        assert expression.count("(") == expression.count(")")
    shown = {name for expression in asked for name in re.findall(r"tidemark_\w+", expression)}
    assert set(labels) - shown == set()


def test_a_selection_holds_nothing(tmp_path: Path) -> None:
    """Its table has no sizes: asked for them, the whole page would fail."""
    settings = declare_selections(tmp_path)
    run_selection_by_hand(settings)
    # Made by hand, it lacks what is no query's.
    shutil.rmtree(settings.layout.ledger("doors"))

    found = samples(exposition(settings.layout))

    assert not [name for name, _ in found if name == "tidemark_state_bytes"]
