"""Rejected records by stream and reason, open and closed, as the current version has them."""

from lakehouse.serving.sandbox.sandbox import open_published
from lakehouse.serving.versions.versions import NotPublished, current_version
from lakehouse.storage.layout import Home

# Stream, reason, open and closed records.
Row = tuple[str, str, int, int]


class PublishedQuarantine:
    """Reads the counts of a home; again only if another version is current."""

    def __init__(self, layout: Home) -> None:
        self._layout = layout
        self._known: tuple[int | None, list[Row]] = (None, [])

    def __call__(self) -> list[Row]:
        """Return a row for each stream and reason; none before the first publish."""
        version = current_version(self._layout.serving)
        if version != self._known[0]:
            self._known = (version, self._read())
        return self._known[1]

    def _read(self) -> list[Row]:
        try:
            with open_published(self._layout) as published:
                asked = "SELECT stream, reason, records, closed FROM quarantine ORDER BY ALL"
                return [tuple(row) for row in published.connection.execute(asked).fetchall()]
        except NotPublished:
            return []
