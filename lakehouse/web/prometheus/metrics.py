"""Metrics as Prometheus lists them: one per stream and measure, the stream's keys as labels."""

from collections.abc import Iterable
from dataclasses import dataclass

from lakehouse.serving.literals import text
from lakehouse.serving.sandbox.sandbox import PublishedReader
from lakehouse.web.prometheus.promql import BOUNDS, Matcher, PromqlRefused


@dataclass(frozen=True)
class Metric:
    """A measure of a stream, with the stream's groupings: each a number and its keys, fewest keys first."""

    name: str
    stream: str
    measure: str
    is_counter: bool
    groupings: tuple[tuple[int, tuple[str, ...]], ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """Every key that some grouping holds."""
        return tuple(dict.fromkeys(key for _, keys in self.groupings for key in keys))

    def apart(self, labels: Iterable[str]) -> tuple[int, tuple[str, ...]] | None:
        """Return the grouping that keeps most keys apart, among those that hold these labels; None where none does."""
        wanted = set(labels)
        fitting = [one for one in self.groupings if wanted <= set(one[1])]
        return max(fitting, key=lambda one: len(one[1]), default=None)

    def widest(self) -> list[tuple[int, tuple[str, ...]]]:
        """Return the groupings whose keys no other holds all of."""
        held = [set(keys) for _, keys in self.groupings]
        return [one for one in self.groupings if not any(set(one[1]) < other for other in held)]


def seen_only(streams: tuple[str, ...] | None) -> str:
    """Return the condition on streams that may be seen, nothing for all."""
    return "" if streams is None else f"WHERE stream IN ({', '.join(map(text, streams)) or 'NULL'})"


def metrics_of(reader: PublishedReader, streams: tuple[str, ...] | None = None) -> dict[str, Metric]:
    """Return every metric of a version by its name, of all streams or of those that may be seen."""
    only = seen_only(streams)
    rows = reader.connection.execute(
        f"SELECT DISTINCT ON (stream, measure) stream, measure, is_counter, groupings FROM ladder {only} "
        "ORDER BY stream, measure"
    ).fetchall()
    found = {}
    for stream, measure, is_counter, groupings in rows:
        name = stream if measure == "*" else f"{stream}:{measure}"
        known = tuple((one["id"], tuple(one["key_names"])) for one in groupings)
        found[name] = Metric(name, stream, measure, is_counter, known)
    return found


def metric(reader: PublishedReader, name: str, streams: tuple[str, ...] | None = None) -> Metric:
    """Return one metric. Raises PromqlRefused when there is none, with those that there are, and that may be seen."""
    known = metrics_of(reader, streams)
    if name not in known:
        from lakehouse.serving.ask.question import unknown, withheld_of

        stream = name.partition(":")[0]
        withheld = None if stream in known else withheld_of(reader.connection, stream)
        raise PromqlRefused(withheld or unknown("metric", name, list(known)))
    return known[name]


def bounds_of(matchers: tuple[Matcher, ...], chosen: list[str]) -> list[str]:
    """Return which of value, low and high are asked for, by what the matchers of ``bound`` let through."""
    if not any(one.label == "bound" for one in matchers):
        return ["value"]
    return [one for one in BOUNDS if one in chosen]


def label_sets(
    reader: PublishedReader, one: Metric, labels: Iterable[str], limit: int
) -> list[dict[str, str]]:
    """Return the labels of a metric's series, in the order of their values; a missing value has no label.

    ``labels``: only series that are told apart by these; by none, those of every grouping.
    """
    chosen = one.apart(labels) if labels else None
    groupings = one.widest() if not labels else [chosen] if chosen else []
    found = []
    for number, keys in groupings:
        rows = reader.connection.execute(
            f"SELECT key_values FROM series WHERE grouping_id = {number} ORDER BY lookup LIMIT {limit}"
        ).fetchall()
        for (values,) in rows:
            known = {k: v for k, v in zip(keys, values, strict=True) if v is not None}
            found.append({"__name__": one.name} | known)
    return found


def matching(
    reader: PublishedReader, labels: list[dict[str, str]], matchers: tuple[Matcher, ...]
) -> list[dict[str, str]]:
    """Return the label sets that matchers let through; regular expressions are RE2's, which take linear time.

    Raises PromqlRefused when an expression is none.
    """
    left = labels
    for one in matchers:
        values = sorted({each.get(one.label, "") for each in left})
        allowed = set(_allowed(reader, one, values))
        left = [each for each in left if each.get(one.label, "") in allowed]
    return left


def _allowed(reader: PublishedReader, one: Matcher, values: list[str]) -> list[str]:
    if one.operator in ("=", "!="):
        return [value for value in values if (value == one.value) is (one.operator == "=")]
    import duckdb

    listed = ", ".join(map(text, values)) or "NULL"
    wanted = "" if one.operator == "=~" else "NOT "
    try:
        rows = reader.connection.execute(
            f"SELECT v FROM (SELECT unnest([{listed}]::VARCHAR[]) AS v) "
            f"WHERE {wanted}regexp_full_match(v, {text(one.value)})"
        ).fetchall()
    except duckdb.Error as error:
        raise PromqlRefused(f"{one.label}{one.operator}: {error}") from None
    return [value for (value,) in rows]
