"""tidemark.toml and the environment, read once into ``Settings``; environment variables TIDEMARK_... win.

Reading changes nothing. A home is opened by ``open_home``; ``Settings.layout`` says where all of it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

from pydantic import AfterValidator, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from lakehouse.config import sections
from lakehouse.config.airflow.homes import AirflowSettings
from lakehouse.config.airflow.secrets import require_given
from lakehouse.config.avro_schema import schema_problems
from lakehouse.config.checks import problems_of, stream_problems, stream_refusals
from lakehouse.config.config_paths import config_file, given_home, located, read_toml, store_url
from lakehouse.config.presets import preset_problem, with_landing, with_preset
from lakehouse.config.problems import ConfigError, NotDeclared, Problem
from lakehouse.config.rules.suites import read_suites
from lakehouse.config.spark_settings import EngineSettings, SparkSettings
from lakehouse.config.store_address import is_url
from lakehouse.config.stream import Source, Stream
from lakehouse.config.toml_lines import with_lines
from lakehouse.queries.kind import Query, kinds
from lakehouse.queries.registered import by_query, read_queries
from lakehouse.storage.control.move_in import move_in
from lakehouse.storage.control.store import require_version
from lakehouse.storage.layout import Home
from lakehouse.storage.tables.tables_place import moved_tables

if TYPE_CHECKING:
    Registered = dict[str, Query]
else:
    # Pydantic need not look into what it is never given to check.
    Registered = dict

Q = TypeVar("Q", bound=Query)
_PATHS = ("path", "schema_file", "ca", "cert", "key")
_SECTIONS = (
    *("home", "control", "streams", "engine", "spark", "tables", "serving", "quality", "queries"),
    *("lineage", "alerts", "airflow", "sites"),
)


def _control(url: SecretStr) -> SecretStr:
    if not _CONTROL.fullmatch(url.get_secret_value()):
        raise ValueError('a URL such as "postgresql+psycopg://USER@HOST/DATABASE"')
    return url


_CONTROL = re.compile(r"postgresql\+psycopg://[^\s/]*/[^\s/?]+(\?\S*)?")


class Settings(BaseSettings):
    """Everything a job or command needs to know; paths are absolute.

    ``control``: the URL of the database that keeps the home's leases, which is best given as TIDEMARK_CONTROL and never
    shown; without one the kernel's locks do.
    """

    model_config = SettingsConfigDict(
        env_prefix="TIDEMARK_",
        env_nested_delimiter="__",
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
    )

    home: Path = Path("var")
    control: Annotated[SecretStr, AfterValidator(_control)] | None = None
    config: Path | None = None
    engine: EngineSettings = EngineSettings()
    spark: SparkSettings = SparkSettings()
    tables: sections.TableSettings = sections.TableSettings()
    serving: sections.ServingSettings = sections.ServingSettings()
    quality: sections.QualitySettings = sections.QualitySettings()
    queries: sections.QuerySettings = sections.QuerySettings()
    lineage: sections.LineageSettings = sections.LineageSettings()
    alerts: sections.AlertSettings = sections.AlertSettings()
    airflow: AirflowSettings = AirflowSettings()
    sites: dict[str, dict[str, float]] = Field(default_factory=dict)
    streams: dict[str, Stream] = Field(default_factory=dict)
    registered: Registered = Field(default_factory=dict)
    faulty: dict[str, tuple[Problem, ...]] = Field(default_factory=dict)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Let the environment win over the file, whose content is passed as arguments."""
        return env_settings, init_settings

    @property
    def layout(self) -> Home:
        """Paths of the home, its tables and its control store."""
        control = self.control.get_secret_value() if self.control else None
        return Home(self.home, self.tables.path, control)

    @property
    def time_units(self) -> dict[str, dict[str, str]]:
        """By stream the columns that hold times as numbers, with the unit of each."""
        return {name: stream.time_units for name, stream in self.streams.items()}

    def stream(self, name: str) -> Stream:
        """Return a declared stream. Raises NotDeclared with the declared names, when there is none of this name."""
        if name not in self.streams:
            raise NotDeclared(f"no stream {name!r}; declared: {', '.join(sorted(self.streams)) or 'none'}")
        return self.streams[name]

    def of_kind(self, kind: type[Q]) -> dict[str, Q]:
        """Return the registered queries of one kind."""
        return {name: cast(Q, query) for name, query in self.registered.items() if query.kind == kind.kind}

    def query(self, name: str) -> Query:
        """Return a registered query.

        Raises ConfigError with every problem of its file, when it cannot run; others can. Raises NotDeclared with the
        registered names, when there is none of this name.
        """
        if name in self.faulty:
            raise ConfigError(str(self.queries.folder / f"{name}.sql"), list(self.faulty[name]))
        if name not in self.registered:
            raise NotDeclared(f"no query {name!r}; registered: {', '.join(self.registered) or 'none'}")
        return self.registered[name]


def load_settings(config: Path | None = None, home: Path | None = None) -> Settings:
    """Read the configuration as ``read_settings`` does, and open its home.

    Raises ConfigError or OtherVersion as ``read_settings`` and ``open_home``.
    """
    settings = read_settings(config, home)
    open_home(settings)
    return settings


def open_home(settings: Settings) -> None:
    """Make sure that a home is as its configuration says and this version wrote it; its rows move where they belong.

    Raises ConfigError when its tables are elsewhere, or a secret is one that only Airflow's tasks can read;
    OtherVersion when another version wrote it.
    """
    require_given(str(settings.config), settings.airflow.secrets)
    home, tables = settings.home, settings.tables.path
    if (there := moved_tables(home, tables)) is not None:
        elsewhere = Problem("tables.path", tables or "none", f"{there}, where this home has its tables")
        raise ConfigError(str(settings.config), [elsewhere])
    require_version(home)
    move_in(settings.layout)


def read_settings(config: Path | None = None, home: Path | None = None) -> Settings:
    """Read the configuration file and the environment; ``config_paths.py`` says which file and which home.

    Relative paths of sources, and a relative home or folder of queries, are taken from the file's folder. ``home`` wins
    over file and environment. Raises ConfigError with every problem found, each with key, what was found and what is
    expected.
    """
    path = config_file(config)
    problems: list[Problem] = []
    content = _read(path, problems)
    tables = content.pop("streams", {})
    streams = _streams(tables, path.parent, problems)
    settings = _settings(content, problems)
    queries = settings.queries if settings else _readable_queries(content.get("queries"))
    queries = queries.model_copy(update={"folder": _below(path.parent, queries.folder)})
    refused = set(tables) - set(streams) if isinstance(tables, dict) else set()
    faults: list[Problem] = []
    registered = read_queries(queries.folder, streams, faults, refused)
    if settings and settings.sites:
        problems.extend(_site_problems(settings.sites, streams, registered))
    if problems or settings is None:
        raise ConfigError(str(path), [*with_lines(problems, path.read_text("utf-8-sig")), *faults])
    settings = _on_store_whole(settings, home, path)
    where, lineage = given_home(home) or located(settings.home, path.parent), settings.lineage
    if lineage.file:
        lineage = lineage.model_copy(update={"file": _below(path.parent, lineage.file)})
    read = {"lineage": lineage, "home": where, "config": path, "streams": streams, "faulty": by_query(faults)}
    return settings.model_copy(update=read | {"queries": queries, "registered": registered})


def _below(folder: Path, path: Path) -> Path:
    """Return a path of the configuration, which begins at the file's folder."""
    return (folder / path.expanduser()).resolve()


def _site_problems(
    sites: Mapping[str, Mapping[str, float]], streams: dict[str, Stream], registered: dict[str, Query]
) -> Iterator[Problem]:
    for kind in filter(lambda kind: kind.has("sites"), kinds()):
        own = [query for query in registered.values() if query.kind == kind.name]
        yield from kind.file("sites").site_problems(sites, streams, own)


def _on_store_whole(settings: Settings, home: Path | None, path: Path) -> Settings:
    """Return the settings of a home that is on a store: its tables are there, and a database has its manifests."""
    url = store_url(home or os.environ.get("TIDEMARK_HOME") or settings.home)
    if url is None:
        return settings
    if settings.control is None:
        needed = f"control, the database that keeps leases and manifests of the home {url}"
        raise ConfigError(str(path), [Problem("control", "none", needed)])
    try:
        place = sections.on_store(url)
    except ValueError as error:
        found = "a user name or password in it" if "@" in url else repr(url)
        raise ConfigError(str(path), [Problem("home", found, str(error))]) from None
    if settings.tables.path not in (None, place):
        raise ConfigError(str(path), [Problem("tables.path", str(settings.tables.path), f"none, or {place}")])
    return settings.model_copy(update={"tables": settings.tables.model_copy(update={"path": place})})


def _read(path: Path, problems: list[Problem]) -> dict[str, Any]:
    if not path.is_file():
        raise ConfigError(str(path), [Problem("file", "none", "a configuration; `tidemark init` writes one")])
    content = read_toml(path)
    for key in set(content) - set(_SECTIONS):
        problems.append(Problem(key, "an unknown section", f"one of {', '.join(_SECTIONS)}"))
        del content[key]
    return content


def _streams(tables: Any, folder: Path, problems: list[Problem]) -> dict[str, Stream]:
    streams: dict[str, Stream] = {}
    if not isinstance(tables, dict):
        problems.append(Problem("streams", type(tables).__name__, "tables named [streams.<name>]"))
        return streams
    for name, declared in tables.items():
        table = declared
        if isinstance(declared, dict):
            problem = preset_problem(declared)
            if problem:
                problems.append(Problem(f"streams.{name}.{problem.key}", problem.found, problem.expected))
                continue
            table = with_landing(name, with_preset(declared))
        suites = read_suites(folder, name)
        problems.extend(suites.problems)
        try:
            stream = Stream.model_validate(_whole(name, table, suites.rules))
        except ValidationError as error:
            problems.extend(stream_refusals(name, table, error))
            continue
        problems.extend(_placed(one, stream, suites.places) for one in stream_problems(stream))
        source = _located(stream.source, folder)
        if source.schema_file or source.schema_files:
            wrong = schema_problems(source)
            problems.extend(Problem(f"streams.{name}.{one.key}", one.found, one.expected) for one in wrong)
        streams[name] = stream.model_copy(update={"source": source})
    return streams


def _whole(name: str, table: Any, rules: Sequence[dict[str, Any]]) -> Any:
    """Return a stream's table with its name, and with rules of its suites behind its own."""
    if not isinstance(table, dict):
        return table
    own = table.get("rules", [])
    return table | {"name": name} | ({"rules": [*own, *rules]} if rules and isinstance(own, list) else {})


def _placed(problem: Problem, stream: Stream, places: Sequence[str]) -> Problem:
    """Return a problem of a stream, of a rule of a suite with the place where that stands."""
    for number, place in enumerate(places, start=len(stream.rules) - len(places)):
        key = f"streams.{stream.name}.rules.{number}."
        if problem.key.startswith(key):
            return replace(problem, key=f"{place}.{problem.key.removeprefix(key)}")
    return problem


def _located(source: Source, folder: Path) -> Source:
    """Return a source whose paths are taken from the configuration's folder."""

    def at(path: str) -> str:
        if is_url(path):
            return path
        return os.path.normpath(folder / Path(path).expanduser())

    places: dict[str, Any] = {name: at(path) for name in _PATHS if (path := getattr(source, name))}
    places["schema_files"] = {number: at(path) for number, path in source.schema_files.items()}
    return source.model_copy(update=places)


def _readable_queries(table: Any) -> sections.QuerySettings:
    """Return where queries are although something else is wrong, so that they are read all the same."""
    try:
        return sections.QuerySettings(folder=table["folder"])
    except (KeyError, TypeError, ValidationError):
        return sections.QuerySettings()


def _settings(content: dict[str, Any], problems: list[Problem]) -> Settings | None:
    try:
        return Settings(**content)
    except ValidationError as error:
        problems.extend(problems_of("", error, Settings))
        return None
