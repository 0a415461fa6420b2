"""Settings of a session: Spark's own, and the home whose tables it reads. The project's ``Settings`` are such."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, Self

from lakehouse.config.sections import TableSettings
from lakehouse.config.spark_settings import EngineSettings, SparkSettings
from lakehouse.config.stream import Stream
from lakehouse.storage.layout import Home


class SparkHome(Protocol):
    """A home, and how Spark runs over it."""

    @property
    def engine(self) -> EngineSettings:
        """The runner of kernels."""

    @property
    def spark(self) -> SparkSettings:
        """Spark's master and options."""

    @property
    def tables(self) -> TableSettings:
        """Location of the tables."""

    @property
    def home(self) -> Path:
        """Folder of the home."""

    @property
    def layout(self) -> Home:
        """Paths of the home."""

    @property
    def streams(self) -> Mapping[str, Stream]:
        """The declared streams, by name."""

    @property
    def registered(self) -> Mapping[str, object]:
        """The registered queries, by name."""

    def model_copy(self, *, update: Mapping[str, Any]) -> Self:
        """Return the same with some settings replaced."""
