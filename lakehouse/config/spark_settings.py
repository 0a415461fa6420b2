"""Settings of the runner of kernels and of Spark: in each job's process, or on a named cluster."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr

_LOCAL = re.compile(r"local(\[(\*|[1-9]\d*)\])?")
_HOST_PORT = r"[^\s/:,@]+:\d{1,5}"
_STANDALONE = re.compile(rf"spark://{_HOST_PORT}(,{_HOST_PORT})*")
_CONNECT = re.compile(rf"sc://{_HOST_PORT}(/;use_ssl=true)?")
_KUBERNETES = re.compile(r"k8s://(https?://)?[^\s/@]+")
_PORTS = {"http": 80, "https": 443}
# What has a key of its own, and what the tables' content rests on.
_OWN_KEYS = {
    "spark.master": "spark.master",
    "spark.driver.memory": "spark.driver_memory",
    "spark.driver.extraJavaOptions": "spark.java_options",
    "spark.sql.shuffle.partitions": "spark.shuffle_partitions",
    "spark.authenticate.secret": "TIDEMARK_SPARK__SECRET",
}
_FIXED = {
    "spark.jars",
    "spark.driver.extraClassPath",
    "spark.sql.catalog.spark_catalog",
    "spark.sql.extensions",
    "spark.sql.parquet.outputTimestampType",
    "spark.sql.session.timeZone",
    "spark.submit.pyFiles",
}


def _known_master(master: str) -> str:
    if not any(kind.fullmatch(master) for kind in (_LOCAL, _STANDALONE, _CONNECT, _KUBERNETES)):
        raise ValueError(
            'expected "local[*]", "local[4]", "spark://HOST:PORT", "sc://HOST:PORT" or "k8s://https://HOST:PORT"'
        )
    return master


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield options by their whole names: TOML makes tables of dotted keys that are not quoted."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _texts(table: Any) -> Any:
    """Return options as Spark takes them: texts."""
    return {name: _text(value) for name, value in _flat(table)} if isinstance(table, Mapping) else table


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _allowed(options: dict[str, str]) -> dict[str, str]:
    for name in options:
        if not re.fullmatch(r"spark(\.[^\s.=]+)+", name):
            raise ValueError(f"expected Spark's own names, such as spark.executor.memory; one is {name}")
        if name in _OWN_KEYS:
            raise ValueError(f"expected no {name} here: it is given as {_OWN_KEYS[name]}")
        if name in _FIXED:
            raise ValueError(f"expected no {name}: Tidemark sets it, because its tables rest on it")
    return options


class EngineSettings(BaseModel):
    """Runner of kernels: ``spark``, in its tasks, or ``local``, in each job's process, which needs no Java."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    runner: Literal["spark", "local"] = "spark"


class SparkSettings(BaseModel):
    """Settings of Spark.

    ``master``: ``local[*]`` runs it inside each job's process; others name a cluster, whose workers see the home and
    the landing folders at the same paths, or a server of Spark Connect (``sc://``), which many processes share, and
    whose own options are not this process's. ``options``: any other option of Spark, by its name; what stands here wins
    over what Tidemark would say. ``secret``: what driver and workers of a standalone cluster know each other by, or
    the token of a server of Spark Connect, by default the one that the home keeps; it is best given as
    TIDEMARK_SPARK__SECRET, and never shown. ``shuffle_partitions``: where it is None, 2 in one process
    and as many as a cluster has cores. ``ui``: whether Spark's own pages are served while a session runs, on this
    machine alone where Spark runs in the process. ``event_log``: the folder, of which a relative one is in the home, in
    which each session leaves its log of events, from which a history server of Spark makes the same pages later.

    The default ``java_options`` compile lightly, which halves the CPU of a run of small batches; a bulk load that runs
    on for minutes does better without them. Compiling lightly has room for 48 MB of code by itself, and a process that
    has filled it compiles nothing any more: from then on it is several times slower. So more room is asked for.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    master: Annotated[str, AfterValidator(_known_master)] = "local[*]"
    driver_memory: str = "2g"
    shuffle_partitions: int | None = Field(default=None, ge=1)
    java_options: str = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"
    options: Annotated[dict[str, str], BeforeValidator(_texts), AfterValidator(_allowed)] = Field(
        default_factory=dict, repr=False
    )
    secret: SecretStr | None = None
    ui: bool = False
    event_log: Path | None = None

    @property
    def is_local(self) -> bool:
        """True if Spark runs inside the job's process."""
        return bool(_LOCAL.fullmatch(self.master))

    @property
    def local_cores(self) -> int | None:
        """On how many cores tasks run where Spark runs inside the job's process, None where it does not."""
        if not (found := _LOCAL.fullmatch(self.master)):
            return None
        return (os.cpu_count() or 1) if found[2] == "*" else int(found[2] or 1)

    @property
    def is_standalone(self) -> bool:
        """True if the master is one of Spark's own clusters."""
        return self.master.startswith("spark://")

    @property
    def is_connect(self) -> bool:
        """True where the master is a server of Spark Connect, which has a session for each of its clients."""
        return self.master.startswith("sc://")

    def addresses(self) -> list[tuple[str, int]]:
        """Return host and port of the masters, of which one must answer; none where Spark runs in the process."""
        if self.is_local:
            return []
        if self.is_standalone:
            pairs = (each.rpartition(":") for each in self.master.removeprefix("spark://").split(","))
            return [(host, int(port)) for host, _, port in pairs]
        url = self.master.removeprefix("k8s://").replace("sc://", "https://")
        parts = urlsplit(url if "://" in url else f"https://{url}")
        return [(parts.hostname or "", parts.port or _PORTS[parts.scheme])]
