"""Sections of tidemark.toml beside streams, engine and Spark, each checked as it is read."""

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from lakehouse.config.durations import format_duration, parse_duration
from lakehouse.config.store_address import SUCH_AS, is_place
from lakehouse.config.times import Kept, Microseconds

_LEAST_HISTORY_US = parse_duration("10m")


def _for_readers(history_us: int) -> int:
    if history_us < _LEAST_HISTORY_US:
        raise ValueError(
            f"expected at least {format_duration(_LEAST_HISTORY_US)}, so that no reader is broken"
        )
    return history_us


def on_store(path: str) -> str:
    """Return the address of a place on an object store. Raises ValueError with what is expected, for anything else."""
    if not is_place(path):
        known = ", ".join(f"{each}/prefix" for each in SUCH_AS.values())
        raise ValueError(
            f"one such as {known}, without a user: credentials come from the environment, a profile or the "
            "machine's role"
        )
    return path.rstrip("/")


class TableSettings(BaseModel):
    """Time for which old versions of tables can be read, in microseconds; what only they need goes then.

    ``path``: where the tables are on an object store, such as ``s3://bucket/prefix``; without one they are in the home.
    Whoever reads a table for longer than this, from ten minutes on, may find files of the version it began with gone.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    path: Annotated[str, AfterValidator(on_store)] | None = None
    history: Annotated[Microseconds, AfterValidator(_for_readers)] = parse_duration("7d")

    @property
    def scheme(self) -> str | None:
        """Kind of store that has the tables, None where the home has them."""
        return self.path.partition("://")[0] if self.path else None


class ServingSettings(BaseModel):
    """Retention of published versions."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    keep_versions: int = Field(default=3, ge=1)


class QualitySettings(BaseModel):
    """Gates of the quality checks; shares are between 0 and 1."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    max_quarantined_share: float = Field(default=0.5, ge=0, le=1)
    keep_results: int = Field(default=20, ge=1)
    max_missed_periods: float = Field(default=0.05, ge=0, le=1)


# Those of lakehouse.algorithms.scheduling.policies, which takes longer to load.
PolicyName = Literal["fifo", "greedy", "chain", "multifactor"]


class QuerySettings(BaseModel):
    """Folder of registered queries, and the number of their buckets; None: as many as cores ask for.

    ``published``: how far back from its newest event time a query's pairs are published; None is without limit.
    ``policy``: which operator of all queries runs next in a shared scan.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    folder: Path = Path("queries")
    buckets: int | None = Field(default=None, ge=1)
    published: Kept = parse_duration("30d")
    policy: PolicyName = "multifactor"


def _address(url: str) -> str:
    if not _ADDRESS.fullmatch(url):
        raise ValueError(
            "an address such as https://HOST/PATH, without a user: secrets have keys of their own"
        )
    return url


_ADDRESS = re.compile(r"https?://[^\s/?#@]+([/?#]\S*)?")
Address = Annotated[str, AfterValidator(_address)]


class LineageSettings(BaseModel):
    """Destination of OpenLineage events: a file with one event a line, an HTTP address, both, or none.

    ``api_key`` is best given as TIDEMARK_LINEAGE__API_KEY; it is never shown.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    file: Path | None = None
    url: Address | None = None
    api_key: SecretStr | None = None
    namespace: str = "tidemark"


class AlertSettings(BaseModel):
    """Webhook to which a server posts alarms that are raised, changed or withdrawn; none without ``url``.

    ``secret`` signs what is posted. It is best given as TIDEMARK_ALERTS__SECRET; it is never shown.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    url: Address | None = None
    secret: SecretStr | None = None
