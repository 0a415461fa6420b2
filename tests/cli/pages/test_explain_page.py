from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from lakehouse.cli.charts.explain_charts import memory_chart
from lakehouse.declare.settings import Settings
from lakehouse.queries.pairs.charts import recall_chart, wait_chart
from lakehouse.queries.pairs.page import page_of
from lakehouse.queries.pairs.query import PairsQuery
from lakehouse.queries.pairs.state import PairsState
from lakehouse.queries.runtime.explain import Declared, explain
from tests.cli.charts.test_html_chart import BROWSER, EVIL, Tags, opened
from tests.queries.joined import AT, TEXT, declare, run_by_hand


def _page(settings: Settings) -> str:
    state = PairsState(settings.layout, settings.of_kind(PairsQuery)["replies"], 8)
    declared = Declared(settings.streams, settings.sites, None)
    return page_of(explain(state, declared), state, declared)


def _data(text: str) -> Any:
    return json.loads(re.findall(r'id="series">(.*?)</script>', text, re.S)[0])


@pytest.fixture
def shown(tmp_path: Path) -> str:
    """The page of a query whose words would be markup if they could."""
    settings = declare(tmp_path, replies=TEXT.replace("answers", EVIL).replace("'hall'", f"'{EVIL[:30]}'"))
    run_by_hand(settings)
    return _page(settings)


def test_words_of_the_query_stay_text(shown: str) -> None:
    found = Tags(shown).found

    assert sum(tag == "script" for tag, _ in found) == 2
    assert not [tag for tag, _ in found if tag == "img"]


def test_nothing_is_loaded_from_elsewhere(shown: str) -> None:
    assert not [a for _, a in Tags(shown).found if {"src", "href"} & set(a)]
    assert not re.search(r"https?://|url\(|@import", shown)


def test_the_page_has_three_charts_with_what_each_column_tells(shown: str) -> None:
    recall, wait, memory = _data(shown)["charts"]

    assert re.findall("<h2>(.*?)</h2>", shown) == [
        "Recall over event time",
        "Wait over event time",
        "Memory over batches",
    ]
    assert "recall  0.75\n450 of 600 pairs online, repair to come" in recall[70]["tip"]
    assert any("their wait  mean 7s, p99 7s" in column["tip"] for column in wait)
    assert [column["tip"].splitlines()[0] for column in memory] == [
        "batch 1, 2026-01-02 00:01:00 UTC",
        "batch 2, 2026-01-02 00:02:00 UTC",
    ]


def test_a_page_without_pairs_has_no_charts(tmp_path: Path) -> None:
    text = _page(declare(tmp_path))

    assert _data(text)["charts"] == [] and "<figure" not in text


def test_recall_is_shaded_up_to_one_only_where_no_repair_is_to_come() -> None:
    stretches = [
        {"from_us": at, "to_us": at + 1, "periods": 1, "worst": worst}
        for at, worst in enumerate([_worst(0.9, False), _worst(0.8, True), None, _worst(1.0, False)])
    ]

    chart = recall_chart(stretches, 0.95)

    assert chart is not None
    drawn = "\n".join(chart.svg)
    assert (drawn.count('class="band"'), drawn.count('class="line"'), drawn.count('class="asked"')) == (
        2,
        2,
        1,
    )
    assert drawn.count('class="line unsure"') == 1
    assert [dots[0] is None for _, dots in chart.columns] == [False, False, True, False]


def _worst(recall: float, is_open: bool) -> dict[str, Any]:
    return {
        "from_us": 0,
        "to_us": 60,
        "recall": recall,
        "pairs": 100,
        "online": round(100 * recall),
        "open": is_open,
    }


def test_waits_are_drawn_in_a_unit_that_fits_and_not_at_all_without_repaired_pairs() -> None:
    stretch = {"from_us": 0, "to_us": 9, "pairs": 5, "repaired": 2, "wait_mean_us": 3e9}
    stretch |= {"repaired_wait_mean_us": 4e9, "repaired_wait_p99_us": 9_000_000_000}

    chart = wait_chart([stretch])

    assert chart is not None and chart.keys[0][1] == "mean wait of repaired pairs, hours"
    assert wait_chart([stretch | {"repaired": 0}]) is None


def test_of_very_many_batches_those_that_held_most_are_drawn() -> None:
    batches = [
        {
            "batch": n,
            "committed_at": AT,
            "time_us": None,
            "held": n % 7,
            "most_held": n % 7,
            "bytes": 10 * (n % 7),
        }
        for n in range(1, 1001)
    ]

    chart = memory_chart(batches)

    assert chart is not None and len(chart.columns) <= 480
    assert [tip.splitlines()[0].partition(",")[0] for tip, _ in chart.columns[:3]] == [
        "batch 3",
        "batch 6",
        "batch 9",
    ]


@pytest.mark.skipif(BROWSER is None, reason="no chromium here to open the page with")
def test_a_browser_shows_each_chart_and_what_is_pointed_at_without_errors(shown: str, tmp_path: Path) -> None:
    probe = """<script>
        const faults = []; addEventListener("error", (event) => faults.push(event.message));
        addEventListener("load", () => {
            const tips = [...document.querySelectorAll("figure")].map((figure) => {
                const svg = figure.querySelector("svg"), box = svg.getBoundingClientRect();
                const at = {clientX: box.left + box.width * 0.35, clientY: box.top + 50};
                svg.dispatchEvent(new PointerEvent("pointermove", at));
                return figure.querySelector(".tip").textContent;
            });
            const lines = [...document.querySelector("figure").querySelectorAll(".line")];
            const drawn = lines.map((line) => line.getBoundingClientRect());
            const width = drawn.reduce((sum, box) => sum + box.width, 0);
            const seen = {faults, tips, width, height: Math.max(...drawn.map((box) => box.height)),
                title: document.title, asked: getComputedStyle(document.querySelector(".asked")).strokeDasharray};
            document.body.dataset.seen = JSON.stringify(seen);
        });
    </script>"""
    seen = opened(tmp_path, shown.replace("<head>", f"<head>{probe}"))

    assert (seen["faults"], seen["title"]) == ([], "query replies")
    assert seen["width"] > 300 and seen["height"] > 50 and "6" in seen["asked"]
    told = ("pairs online", "pairs repaired", "bytes of state")
    assert [words in tip for words, tip in zip(told, seen["tips"], strict=True)] == [True] * 3
