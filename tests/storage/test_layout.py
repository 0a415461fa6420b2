from __future__ import annotations

from pathlib import Path

from lakehouse.storage.layout import Home

HOME = Home(Path("/home"))


def test_no_two_things_live_in_the_same_place() -> None:
    tables = [place("s") for place in (HOME.raw, HOME.quarantine, HOME.ledger, HOME.rollup, HOME.corrections)]
    single = [
        HOME.manifests("s").folder,
        HOME.quality,
        HOME.reports,
        HOME.serving,
        HOME.service,
        HOME.airflow,
    ]

    places = [*tables, *single]
    assert len(set(places)) == len(places)
    assert all(str(place.relative_to(HOME.root)) for place in places)


def test_streams_do_not_share_a_table() -> None:
    assert HOME.raw("a") != HOME.raw("b")
