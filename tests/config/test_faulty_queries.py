"""A query whose file is wrong is set aside with its message; nothing else stops for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.running.chosen import chosen_queries, unserved
from jobs.running.scheduled import configured_as
from lakehouse.config.problems import ConfigError, Permanent
from lakehouse.home_checks import examine_home
from lakehouse.queries.registered import as_published, parse_query
from lakehouse.settings import Settings, load_settings

GOOD = "SELECT id FROM s WHERE x > 1"
WRONG = {
    "typo": "SELECT id FROM s\nWHERE y > 1",
    "lost": "SELECT id FROM nowhere WHERE x > 1",
    "bare": "SELECT",
    "empty": "",
    "called": "SELECT id FROM s WHERE odd(x)",
}
STREAM = """
[streams.s]
event_time = { column = "ts", unit = "s" }
levels = ["1d forever"]
keys = ["id"]
columns = { x = "double" }
source = { path = "s", format = "csv" }
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    folder = tmp_path / "queries"
    folder.mkdir()
    for name, text in {"good": GOOD, **WRONG}.items():
        (folder / f"{name}.sql").write_text(text, encoding="utf-8")
    (folder / "latin.sql").write_bytes(GOOD.encode() + b" -- \xe9")
    (folder / "Shouted.sql").write_text(GOOD, encoding="utf-8")
    (folder / "deep.sql").mkdir()
    (folder / "gone.sql").symlink_to(folder / "nothing")
    (tmp_path / "tidemark.toml").write_text(STREAM, encoding="utf-8")
    return load_settings(tmp_path / "tidemark.toml", tmp_path / "home")


def test_each_fault_is_its_querys_alone_with_file_line_and_column(settings: Settings) -> None:
    assert list(settings.registered) == ["good"]
    assert sorted(settings.faulty) == sorted([*WRONG, "latin", "Shouted", "deep", "gone"])
    with pytest.raises(
        ConfigError, match=r"typo.sql: 1 problem\n  queries/typo.sql:2:7: .* column 'y';"
    ) as refused:
        settings.query("typo")
    assert isinstance(refused.value, Permanent)


def test_its_task_fails_and_those_of_the_others_run(settings: Settings) -> None:
    with configured_as(settings):
        assert chosen_queries({}) == ["good"]
        assert sorted(unserved({}, "query")[0]) == sorted(["good", *settings.faulty])
        assert unserved({"queries": "good"}, "query")[0] == ["good"]


def test_doctor_names_it(settings: Settings) -> None:
    found = {each.check: each for each in examine_home(settings.layout, settings)}

    assert found["query typo"].state == "wrong"
    assert found["query typo"].found.startswith("queries/typo.sql:2:7: found the unknown column")


def test_a_wrong_configuration_is_refused_with_the_faults_of_queries(
    tmp_path: Path, settings: Settings
) -> None:
    config = tmp_path / "tidemark.toml"
    config.write_text(STREAM.replace("csv", "yaml"), encoding="utf-8")

    with pytest.raises(ConfigError, match=r"source.format") as refused:
        load_settings(config)

    assert "queries/bare.sql:1:1" in {problem.key for problem in refused.value.problems}


def test_its_published_tables_are_made_of_the_text_that_was_published(settings: Settings) -> None:
    published = {"query": "typo", "statement": GOOD, "description": "What is above 1."}

    before = {"typo": published, "good": {**published, "query": "good"}}
    found = as_published(settings.faulty, before, settings.streams)

    assert list(found) == ["typo"]
    assert found["typo"].definition() == settings.query("good").definition()
    assert found["typo"].description == "What is above 1."


def test_a_query_keeps_its_published_tables_when_its_predicate_becomes_faulty(
    tmp_path: Path, settings: Settings
) -> None:
    called, folder = WRONG["called"], tmp_path / "predicates"
    folder.mkdir()
    (folder / "odd.py").write_text("def odd(x):\n    return x > 1\n", encoding="utf-8")
    published = parse_query("called", called, settings.streams, folder)
    before = {"called": {"query": "called", "statement": called, "description": ""}}

    for text in ("def odd(x:", "def even(x): ...", None):
        (folder / "odd.py").write_text(text, encoding="utf-8") if text else (folder / "odd.py").unlink()
        now = load_settings(tmp_path / "tidemark.toml", tmp_path / "home")
        found = as_published(now.faulty, before, now.streams)

        assert "called" in now.faulty
        assert [found["called"].definition()] == [published.definition()]


def test_a_sum_keeps_its_published_answers_when_what_it_adds_up_is_declared_a_counter(
    settings: Settings,
) -> None:
    text = "SELECT SUM(a.x) AS total FROM s a [1 HOUR], s b [1 HOUR] WHERE a.id = b.id EVERY 1 MINUTE"
    counting = {"s": settings.stream("s").model_copy(update={"counters": ("x",)})}

    found = as_published(["summed"], {"summed": {"statement": text, "description": ""}}, counting)

    assert found["summed"].definition() == parse_query("summed", text, settings.streams).definition()
