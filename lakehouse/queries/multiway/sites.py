"""Sites of streams, and costs of moving a row between them, as ``[sites]`` declares them.

    [sites]
    berlin = { oslo = 18, rome = 25 }     from berlin to oslo 18, and back where oslo says nothing else
    oslo = { rome = 20 }

A row that stays at its site costs nothing. Without ``[sites]`` every row that goes from one stream to another costs 1,
wherever they are.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from lakehouse.config.problems import Problem
from lakehouse.config.stream import Stream
from lakehouse.queries.multiway.query import MultiwayQuery

Costs = Mapping[str, Mapping[str, float]]


def site_problems(
    costs: Costs, streams: Mapping[str, Stream], queries: Iterable[MultiwayQuery]
) -> Iterator[Problem]:
    """Yield what is wrong with costs, with the sites of streams, and what queries need that is not declared."""
    known = sorted({*costs, *(site for ways in costs.values() for site in ways)})
    for start, ways in costs.items():
        for end, cost in ways.items():
            if not (math.isfinite(cost) and cost >= 0):
                yield Problem(f"sites.{start}.{end}", f"{cost:g}", "a finite cost, not below 0")
    for place, start in enumerate(known):
        for end in known[place + 1 :]:
            if _cost(costs, start, end) is None:
                yield Problem("sites", f"no cost between {start} and {end}", f"{start} = {{ {end} = ... }}")
    yield from _stream_problems(known, streams, queries)


def _stream_problems(
    known: Sequence[str], streams: Mapping[str, Stream], queries: Iterable[MultiwayQuery]
) -> Iterator[Problem]:
    expected = f"one of the sites {', '.join(known)}"
    for name, stream in streams.items():
        if stream.site is not None and stream.site not in known:
            yield Problem(f"streams.{name}.site", repr(stream.site), expected)
    joined = {stream: query.name for query in queries for stream in query.streams}
    for name, query in sorted(joined.items()):
        if streams[name].site is None:
            yield Problem(f"streams.{name}.site", "nothing", f"{expected}, as query {query} joins it")


def transfer_of(
    query: MultiwayQuery, streams: Mapping[str, Stream], costs: Costs
) -> tuple[tuple[float, ...], ...]:
    """Return what moving a row from each side (line) to each other (column) costs."""
    if not costs:
        sides = range(len(query.sides))
        return tuple(tuple(float(start != end) for end in sides) for start in sides)
    places = [streams[stream].site or "" for stream in query.streams]
    return tuple(tuple(_between(costs, start, end) for end in places) for start in places)


def _between(costs: Costs, start: str, end: str) -> float:
    return 0.0 if start == end else float(_cost(costs, start, end) or 0)


def _cost(costs: Costs, start: str, end: str) -> float | None:
    there = costs.get(start, {}).get(end)
    return costs.get(end, {}).get(start) if there is None else there
