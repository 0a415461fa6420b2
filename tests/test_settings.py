from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.cli.commands.declare.init import starter
from lakehouse.config.problems import ConfigError
from lakehouse.settings import load_settings

STREAM = """
[streams.{name}]
event_time = {{ column = "ts", unit = "s" }}
levels = ["1m for 2d", "1d forever"]
source = {{ path = "{path}", format = "ndjson" }}
"""


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the caller's environment."""
    for name in ("TIDEMARK_CONFIG", "TIDEMARK_HOME", "TIDEMARK_SPARK__DRIVER_MEMORY"):
        monkeypatch.delenv(name, raising=False)


def _written(folder: Path, text: str) -> Path:
    config = folder / "tidemark.toml"
    config.write_text(text, encoding="utf-8")
    return config


def test_paths_are_taken_from_the_files_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    config = _written(tmp_path, 'home = "here"\n' + STREAM.format(name="s", path="../in/*.ndjson"))

    settings = load_settings(config)

    assert settings.home == tmp_path / "here"
    assert settings.config == config
    assert settings.streams["s"].source.path == str(tmp_path.parent / "in" / "*.ndjson")
    assert settings.layout.raw("s") == tmp_path / "here" / "raw" / "s"


def test_an_absolute_source_stays_where_it_is(tmp_path: Path) -> None:
    config = _written(tmp_path, STREAM.format(name="s", path="/data/*.ndjson"))

    assert load_settings(config).streams["s"].source.path == "/data/*.ndjson"


def test_the_environment_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = _written(tmp_path, '[spark]\ndriver_memory = "1g"\nshuffle_partitions = 7')
    monkeypatch.setenv("TIDEMARK_SPARK__DRIVER_MEMORY", "4g")

    spark = load_settings(config).spark

    assert (spark.driver_memory, spark.shuffle_partitions) == ("4g", 7)


def test_a_variable_that_is_empty_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TIDEMARK_HOME", "TIDEMARK_CONTROL", "TIDEMARK_SPARK__DRIVER_MEMORY"):
        monkeypatch.setenv(name, "")

    settings = load_settings(_written(tmp_path, '[spark]\ndriver_memory = "1g"'))

    assert (settings.home, settings.control, settings.spark.driver_memory) == (tmp_path / "var", None, "1g")


def test_other_variables_of_ours_do_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TIDEMARK_JARS", "TIDEMARK_DEBUG", "TIDEMARK_CRASH_AT"):
        monkeypatch.setenv(name, "1")

    assert load_settings(_written(tmp_path, "")).streams == {}


def test_an_unknown_stream_is_told_with_those_there_are(tmp_path: Path) -> None:
    settings = load_settings(_written(tmp_path, STREAM.format(name="s", path="x")))

    assert settings.stream("s").name == "s"
    with pytest.raises(KeyError, match="no stream 't'; declared: s"):
        settings.stream("t")


def test_every_problem_of_the_whole_file_is_told_at_once(tmp_path: Path) -> None:
    text = """
    home = 3
    [spark]
    shuffle_partitions = 0
    drivr_memory = "1g"
    [quality]
    max_quarantined_share = 2
    [serving]
    keep_versions = "many"
    [sparks]
    [streams.a]
    levels = ["1m for 1h", "1d forever"]
    latest = "soon"
    [streams.b]
    event_time = { column = "ts", unit = "s" }
    levels = ["1d forever"]
    keys = ["k"]
    groupings = [["q"]]
    source = { path = "x", format = "yaml" }
    """

    with pytest.raises(ConfigError) as refused:
        load_settings(_written(tmp_path, text))

    told = {problem.key: (problem.found, problem.expected) for problem in refused.value.problems}
    assert told == {
        "home": ("3", "the path of a folder"),
        "spark.shuffle_partitions": ("0", "greater than or equal to 1"),
        "spark.drivr_memory": told["spark.drivr_memory"],
        "quality.max_quarantined_share": ("2", "less than or equal to 1"),
        "serving.keep_versions": ("'many'", "a whole number"),
        "sparks": (
            "an unknown section",
            "one of home, control, streams, engine, spark, tables, serving, quality, queries, "
            "lineage, alerts, airflow, sites",
        ),
        "streams.a.event_time": ("nothing", "a value"),
        "streams.a.source": ("nothing", "a value"),
        "streams.a.latest": ("'soon'", told["streams.a.latest"][1]),
        "streams.a.levels, level 1": ("keep 1h", "at least 1d, one whole node of level 2"),
        "streams.b.source.format": (
            "'yaml'",
            "'csv', 'ndjson', 'json', 'xml', 'zeek', 'parquet', 'avro', 'pcap', 'nfdump', 'influx', "
            "'prometheus', 'remote-write', 'otlp' or 'nmea'",
        ),
        "streams.b.groupings": ("'q'", "one of k"),
    }
    assert "did you mean driver_memory?" in told["spark.drivr_memory"][1]
    assert str(refused.value).startswith(f"{tmp_path / 'tidemark.toml'}: 12 problems\n")


_STREAM = """
[streams.{}]
event_time = {{ column = "ts", unit = "s" }}
measures = ["temp"]
levels = ["1m forever"]
source = {{ path = "l/*.csv", format = "csv" }}
columns = {{ ts = "int", temp = "double" }}
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("streams = 3", "streams: found int; expected tables"),
        ("a = ", "expected TOML"),
        ("[streams]\ns = 3", "a table"),
        ("x = " + "[" * 5000 + "]" * 5000, "values too deep in each other; expected TOML"),
        ("x = " + "{a = " * 3000 + "1" + "}" * 3000, "values too deep in each other; expected TOML"),
        (".".join("a" * 20_000) + " = 1", "a key of more than 100 parts; expected TOML"),
        ("[queries]\nbuckets = " + "9" * 5000, "5000 digits.*; expected TOML"),
        (
            '[alerts]\nurl = "https://u:hidden@h/x"',
            r"found 'https://\*\*\*@h/x'; expected an address.*secrets have keys",
        ),
        ('[lineage]\nurl = "https://hidden@h"', r"found 'https://\*\*\*@h'; expected an address"),
        ('[alerts]\nsecret = ["hidden"]', "alerts.secret: found list; expected a string"),
        ("[lineage]\napi_key = 12345", "lineage.api_key: found int; expected a string"),
        (_STREAM.format('"abc\\n"'), "expected a lower-case letter, then letters"),
        (_STREAM.format("a" * 5000), r"a\.\.\. \(5,0.. characters\); expected a lower-case"),
    ],
    ids=range(13),
)
def test_a_file_of_another_shape_is_told(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told) as refused:
        load_settings(_written(tmp_path, text))
    assert "hidden" not in str(refused.value)
    assert len(str(refused.value)) < 2000


def test_a_file_may_begin_with_the_mark_of_its_encoding(tmp_path: Path) -> None:
    (tmp_path / "tidemark.toml").write_text('home = "there"', encoding="utf-8-sig")

    assert load_settings(tmp_path / "tidemark.toml").home.name == "there"


def test_a_missing_file_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="`tidemark init` writes one"):
        load_settings(tmp_path / "no.toml")


def test_a_file_that_is_not_utf8_is_told(tmp_path: Path) -> None:
    (tmp_path / "tidemark.toml").write_bytes(b'home = "\xff"')

    with pytest.raises(ConfigError, match="expected TOML"):
        load_settings(tmp_path / "tidemark.toml")


def test_the_starting_configuration_is_right_and_shows_the_defaults(tmp_path: Path) -> None:
    settings = load_settings(_written(tmp_path, starter("var")))
    bare = load_settings(_written(tmp_path, ""))

    assert list(settings.streams) == ["telemetry", "flows"]
    assert (settings.spark, settings.serving, settings.quality) == (bare.spark, bare.serving, bare.quality)
    assert (settings.queries, settings.tables) == (bare.queries, bare.tables)


@pytest.mark.parametrize(("history", "found"), [("9m", "'9m'; expected at least 10m"), ("long", "'long'")])
def test_a_history_that_is_too_short_for_readers_is_refused(tmp_path: Path, history: str, found: str) -> None:
    with pytest.raises(ConfigError, match=rf"tables.history: found {found}"):
        load_settings(_written(tmp_path, f'[tables]\nhistory = "{history}"\n'))
