from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.config.config_paths import config_file, home_folder
from lakehouse.config.problems import ConfigError
from lakehouse.settings import load_settings
from lakehouse.storage.tables.tables_place import recorded


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder that is not the configuration's, without variables of the caller's."""
    for name in ("TIDEMARK_CONFIG", "TIDEMARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def _config(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tidemark.toml").write_text(text)
    return folder / "tidemark.toml"


def test_an_option_wins_over_the_environment_and_that_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = _config(tmp_path / "site", 'home = "inside"')

    assert home_folder(None, config) == tmp_path / "site" / "inside"
    monkeypatch.setenv("TIDEMARK_HOME", "of-environment")
    assert home_folder(None, config) == tmp_path / "elsewhere" / "of-environment"
    assert home_folder(Path("of-option"), config) == tmp_path / "elsewhere" / "of-option"


def test_the_default_home_is_beside_the_configuration(tmp_path: Path, elsewhere: Path) -> None:
    assert home_folder() == elsewhere / "var"
    assert home_folder(None, _config(tmp_path / "site", "")) == tmp_path / "site" / "var"


def test_the_configuration_is_an_option_a_variable_or_here(
    tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert config_file() == elsewhere / "tidemark.toml"
    monkeypatch.setenv("TIDEMARK_CONFIG", str(tmp_path / "site" / "other.toml"))
    assert config_file() == tmp_path / "site" / "other.toml"
    assert config_file(Path("mine.toml")) == elsewhere / "mine.toml"


@pytest.mark.parametrize("home", ["", 'home = "inside"', 'home = "/absolute"', 'home = "../up"'])
@pytest.mark.parametrize("variable", [None, "relative", "/var/absolute"])
@pytest.mark.parametrize("option", [None, Path("given")])
def test_the_light_way_finds_the_home_that_the_whole_settings_find(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str, variable: str | None, option: Path | None
) -> None:
    config = _config(tmp_path / "site", home)
    monkeypatch.setenv("TIDEMARK_CONFIG", str(config))
    if variable:
        monkeypatch.setenv("TIDEMARK_HOME", variable)

    assert home_folder(option) == load_settings(None, option).home


def test_a_named_configuration_that_is_not_there_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match=r"file: found none; expected a configuration; `tidemark init`"):
        home_folder(None, tmp_path / "no.toml")
    monkeypatch.setenv("TIDEMARK_CONFIG", "no.toml")
    with pytest.raises(ConfigError, match=r"elsewhere/no\.toml"):
        home_folder()


@pytest.mark.parametrize(
    ("text", "told"), [("home = ", "expected TOML"), ("home = 3", "home: found 3; expected the path")]
)
def test_a_configuration_that_cannot_be_read_is_told(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        home_folder(None, _config(tmp_path / "site", text))


def test_a_given_home_does_not_open_the_configuration(tmp_path: Path) -> None:
    assert home_folder(tmp_path / "home", tmp_path / "no.toml") == tmp_path / "home"


def test_a_home_on_a_store_has_a_folder_of_this_machine_that_says_where_its_tables_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_SCRATCH", str(tmp_path / "scratch"))
    (tmp_path / "tidemark.toml").write_text('home = "s3://bucket/a/b"')

    for found in (home_folder(config=tmp_path / "tidemark.toml"), home_folder(Path("s3://bucket/a/b/"))):
        assert found == tmp_path / "scratch" / "bucket%2Fa%2Fb"
        assert recorded(found) == "s3://bucket/a/b"
    for url in ("gs://bucket/a/b", "abfss://lake@account.dfs.core.windows.net/a/b"):
        assert recorded(home_folder(Path(url))) == url


@pytest.mark.parametrize(
    "url", ["s3://user:hunter2@bucket/a", "abfss://in:hunter2@lake.dfs.core.windows.net"]
)
def test_a_home_on_a_store_with_a_secret_is_refused_and_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("TIDEMARK_SCRATCH", str(tmp_path / "scratch"))
    with pytest.raises(ConfigError, match="without a user") as refused:
        home_folder(Path(url))
    assert "hunter2" not in str(refused.value) and not (tmp_path / "scratch").exists()


@pytest.mark.parametrize(
    "url",
    ["GS://in:hunter2@bucket/a", "s3a://bucket/a", "abfs://lake@a.dfs.core.windows.net/a", "file:///a/b"],
)
def test_a_home_at_a_url_of_no_store_is_refused_and_is_no_folder_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    (tmp_path / "tidemark.toml").write_text(f'home = "{url}"')
    monkeypatch.setenv("TIDEMARK_HOME", url)

    for option, config in ((Path(url), None), (None, None)):
        with pytest.raises(ConfigError, match="no place on a store") as refused:
            home_folder(option, config)
        assert "hunter2" not in str(refused.value)
    monkeypatch.delenv("TIDEMARK_HOME")
    with pytest.raises(ConfigError, match="no place on a store"):
        home_folder(config=tmp_path / "tidemark.toml")


def test_a_folder_may_have_a_colon_in_its_name(tmp_path: Path) -> None:
    assert home_folder(tmp_path / "data:" / "x") == tmp_path / "data:" / "x"
