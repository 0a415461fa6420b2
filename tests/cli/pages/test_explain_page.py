from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.cli.pages.explain_page import batch_charts, whole_page
from lakehouse.cli.queries.pairs import TEXT as PAIRS
from lakehouse.queries.pairs.query import PairsQuery
from lakehouse.queries.pairs.state import PairsState
from lakehouse.queries.runtime.state import Declared, explain
from lakehouse.settings import Settings
from tests.cli.pages.test_chart_page import EVIL, charts_of, in_a_browser, is_harmless, opened
from tests.queries.joined import TEXT, declare, run_by_hand


def _page(settings: Settings) -> str:
    state = PairsState(settings.layout, settings.of_kind(PairsQuery)["replies"])
    declared = Declared(settings.streams, settings.sites, None)
    facts = explain(state, declared)
    assert PAIRS.charts is not None
    return whole_page(facts, PAIRS, PAIRS.charts(facts, state, declared))


@pytest.fixture
def shown(tmp_path: Path) -> str:
    """The page of a query whose words would be markup if they could."""
    settings = declare(tmp_path, replies=TEXT.replace("answers", EVIL).replace("'hall'", f"'{EVIL[:30]}'"))
    run_by_hand(settings)
    return _page(settings)


def test_words_of_the_query_stay_text(shown: str) -> None:
    assert is_harmless(shown)


def test_the_page_has_what_the_explanation_knows_of_each_stretch_and_batch(shown: str) -> None:
    recall, waits, slack, held, memory = charts_of(shown)

    assert [one["kind"] for one in (recall, waits, slack, held, memory)] == [
        *("recall", "waits", "slack", "held", "memory")
    ]
    seventieth = {name: recall["rows"][70][name] for name in ("recall", "pairs", "online", "open")}
    assert seventieth == {"recall": 0.75, "pairs": 600, "online": 450, "open": True}
    waited = [row for row in waits["rows"] if row["repaired"]]
    assert {(row["repaired_wait_mean_us"], row["repaired_wait_p99_us"]) for row in waited} == {(7e6, 7e6)}
    assert [row["batch"] for row in memory["rows"]] == [1, 2]
    assert all(isinstance(row["left_slack_us"], int) for row in slack["rows"])


def test_a_page_without_pairs_has_no_charts(tmp_path: Path) -> None:
    text = _page(declare(tmp_path))

    assert charts_of(text) == []


def test_of_very_many_batches_those_that_held_most_are_drawn() -> None:
    batches = [{"batch": n, "held": n % 7, "most_held": n % 7} for n in range(1, 1001)]

    (chart,) = batch_charts(("memory",), batches)

    assert len(chart["rows"]) <= 480
    assert [row["batch"] for row in chart["rows"][:3]] == [3, 6, 9]


@pytest.mark.slow
@in_a_browser
def test_a_browser_draws_each_chart_and_tells_of_what_is_pointed_at(shown: str, tmp_path: Path) -> None:
    probe = "see({tips: [...charts].map((chart, place) => { point(chart, 0.35); return tip(place); })});"

    seen = opened(tmp_path, shown, probe)

    assert (seen["faults"], seen["title"]) == ([], "query replies")
    assert seen["drawn"] == [True] * 5
    told = ("pairs at once", "by repair", "left", "rows held", "of state")
    assert [words in tip for words, tip in zip(told, seen["tips"], strict=True)] == [True] * 5
