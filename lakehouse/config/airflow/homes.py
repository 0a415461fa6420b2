"""Homes whose DAGs one Airflow has: what parsing a DAG needs of each configuration, and its section ``[airflow]``.

    configurations   $TIDEMARK_CONFIGS, paths with ":" between; else the one of config_paths.py

Read every few seconds by Airflow's DAG processor, so streams and queries are known by their names alone.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from lakehouse.config.airflow.secrets import references
from lakehouse.config.config_paths import DEFAULT_HOME, config_file, given_home, located, read_toml, store_url
from lakehouse.config.durations import parse_duration
from lakehouse.config.problems import ConfigError, Problem

CONFIGS = "TIDEMARK_CONFIGS"


def _timedelta(text: Any) -> Any:
    return timedelta(microseconds=parse_duration(text)) if isinstance(text, str) else text


def _prefix(text: str) -> str:
    if not _PREFIX.fullmatch(text):
        raise ValueError("a letter, then letters, digits, - or _, at most 100")
    return text


# As columns.NAME, whose module takes long to load.
_QUERY = re.compile(r"[a-z][a-z0-9_]{0,99}")
_PREFIX = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,99}")
# As rules/over_time.py, whose module takes long to load.
_OF_NOW = {"freshness", "volume", "silent"}
Duration = Annotated[timedelta, BeforeValidator(_timedelta)]


class AirflowSettings(BaseModel):
    """Names, schedules and limits of a configuration's DAGs.

    ``prefix`` begins the names of DAGs and assets, so that many homes live in one Airflow. ``retries`` come after one
    minute, two, four and so on. A task that takes longer than ``task_timeout`` is ended and tried again; it goes on
    after the last batch that it finished. ``pool`` bounds how many tasks that may start Spark run at once. ``secrets``:
    what tasks take from Connections and Variables (``secrets.py``).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    prefix: Annotated[str, AfterValidator(_prefix)] = "tidemark"
    owner: str = Field(default="tidemark", min_length=1)
    ingest: str = "*/5 * * * *"
    repair: str = "0 2 * * *"
    maintain: str = "30 3 * * *"
    watch: str = "*/5 * * * *"
    retries: int = Field(default=3, ge=0)
    task_timeout: Duration = timedelta(hours=2)
    run_timeout: Duration = timedelta(hours=6)
    pool: str = Field(default="default_pool", min_length=1)
    secrets: Annotated[dict[str, str], AfterValidator(references)] = Field(default_factory=dict)


@dataclass(frozen=True)
class AirflowHome:
    """One configuration as its DAGs need it; ``config`` is its path where tasks must be given it, else None.

    ``has_time_rules``: a stream has rules that may fail because time goes on.
    """

    config: str | None
    settings: AirflowSettings
    root: Path
    tables: str | None
    streams: tuple[str, ...]
    queries: tuple[str, ...]
    has_time_rules: bool = False


def airflow_homes() -> list[AirflowHome]:
    """Return the homes whose DAGs this process's Airflow has.

    Raises ConfigError when a configuration is not there or no TOML, its section is wrong, or two have one prefix.
    """
    named = os.environ.get(CONFIGS)
    if not named:
        return [airflow_home(config_file(), given_home())]
    paths = [config_file(Path(each)) for each in named.split(os.pathsep) if each]
    if os.environ.get("TIDEMARK_HOME"):
        expected = f"none beside {CONFIGS}: each configuration names its own"
        raise ConfigError(CONFIGS, [Problem("TIDEMARK_HOME", "a home", expected)])
    homes = [airflow_home(path, None, str(path)) for path in paths]
    prefixes = Counter(each.settings.prefix for each in homes)
    if twice := [prefix for prefix, times in prefixes.items() if times > 1]:
        raise ConfigError(CONFIGS, [Problem("airflow.prefix", repr(twice[0]), "one of its own in each file")])
    return homes


def airflow_home(path: Path, home: Path | None = None, named: str | None = None) -> AirflowHome:
    """Return what DAGs need of one configuration; ``home`` wins over the file.

    Raises ConfigError as ``airflow_homes``.
    """
    if not path.is_file():
        raise ConfigError(str(path), [Problem("file", "none", "a configuration; `tidemark init` writes one")])
    content = read_toml(path)
    asked = str(content.get("home", DEFAULT_HOME))
    tables = store_url(home or asked) or _table(content, "tables").get("path")
    folder = path.parent / str(_table(content, "queries").get("folder", "queries"))
    return AirflowHome(
        named,
        _settings(path, content.get("airflow", {})),
        home or located(asked, path.parent),
        tables,
        tuple(_table(content, "streams")),
        # A file of another name is no query, and could not be a task.
        tuple(sorted(file.stem for file in folder.glob("*.sql") if _QUERY.fullmatch(file.stem))),
        any(_OF_NOW.intersection(rule) for rule in _rules(content)),
    )


def _rules(content: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for stream in _table(content, "streams").values():
        rules = stream.get("rules") if isinstance(stream, dict) else None
        yield from (rule for rule in (rules if isinstance(rules, list) else ()) if isinstance(rule, dict))


def _table(content: dict[str, Any], name: str) -> dict[str, Any]:
    section = content.get(name, {})
    return section if isinstance(section, dict) else {}


def _settings(path: Path, section: Any) -> AirflowSettings:
    prefix = "TIDEMARK_AIRFLOW__"
    given = {
        key.removeprefix(prefix).lower(): os.environ[key] for key in os.environ if key.startswith(prefix)
    }
    try:
        return AirflowSettings.model_validate(section | given if isinstance(section, dict) else section)
    except ValidationError as error:
        from lakehouse.config.checks import problems_of

        raise ConfigError(str(path), problems_of("airflow", error, AirflowSettings)) from None
