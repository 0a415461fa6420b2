"""Sites of streams and prices of ways between them, read from the configuration, with every gap told."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.config.problems import ConfigError
from lakehouse.queries.multiway.query import MultiwayQuery
from lakehouse.queries.multiway.sites import transfer_of
from lakehouse.settings import Settings, load_settings

STREAM = """
[streams.{name}]
event_time = {{ column = "ts", unit = "s" }}
levels = ["1d forever"]
source = {{ path = "x", format = "ndjson" }}
columns = {{ id = "int" }}
"""
COSTS = """
[sites]
berlin = { oslo = 18, rome = 25 }
oslo = { rome = 20, berlin = 7 }
"""
JOIN = "SELECT a.id FROM a [1 MINUTE] JOIN b [1 MINUTE] ON a.id = b.id JOIN c [1 MINUTE] ON b.id = c.id"


def _loaded(folder: Path, sites: dict[str, str], costs: str = COSTS) -> Settings:
    streams = "".join(
        STREAM.format(name=name) + (f'site = "{sites[name]}"\n' if name in sites else "") for name in "abc"
    )
    # A key of the stream must stand before the next table.
    (folder / "tidemark.toml").write_text(streams + costs)
    (folder / "queries").mkdir(exist_ok=True)
    (folder / "queries" / "three.sql").write_text(JOIN)
    return load_settings(folder / "tidemark.toml")


def _transfer(settings: Settings) -> tuple[tuple[float, ...], ...]:
    return transfer_of(settings.of_kind(MultiwayQuery)["three"], settings.streams, settings.sites)


def test_a_cost_stands_for_both_ways_where_the_way_back_has_none_of_its_own(tmp_path: Path) -> None:
    settings = _loaded(tmp_path, {"a": "berlin", "b": "oslo", "c": "rome"})

    assert _transfer(settings) == ((0, 18, 25), (7, 0, 20), (25, 20, 0))


def test_streams_of_one_site_move_nothing_between_them(tmp_path: Path) -> None:
    settings = _loaded(tmp_path, {"a": "berlin", "b": "rome", "c": "berlin"})

    assert _transfer(settings) == ((0, 25, 0), (25, 0, 25), (0, 25, 0))


def test_without_costs_every_row_moved_costs_the_same(tmp_path: Path) -> None:
    settings = _loaded(tmp_path, {"a": "here", "b": "here"}, costs="")

    assert _transfer(settings) == ((0, 1, 1), (1, 0, 1), (1, 1, 0))


@pytest.mark.parametrize(
    ("sites", "costs", "told"),
    [
        (
            {"a": "berlin", "b": "oslo", "c": "paris"},
            COSTS,
            "streams.c.site: found 'paris'; expected one of the sites",
        ),
        ({"a": "berlin", "b": "oslo"}, COSTS, "streams.c.site: found nothing; .*, as query three joins it"),
        ({}, "[sites]\na = { b = -1 }", "sites.a.b: found -1; expected a finite cost"),
        ({}, "[sites]\na = { b = nan }", "sites.a.b: found nan"),
        ({}, "[sites]\na = { b = 1, c = 2 }", "sites: found no cost between b and c"),
        ({}, "[sites]\na = 3", "sites.a: found 3; expected a table"),
    ],
)
def test_what_is_wrong_with_sites_is_told(
    tmp_path: Path, sites: dict[str, str], costs: str, told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        _loaded(tmp_path, sites, costs)
