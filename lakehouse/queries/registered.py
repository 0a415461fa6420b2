"""Registered queries: files of SQL over the windows of streams, read into what running them needs.

Pairs of two streams, each found once (``PairsQuery``):

    -- what it is for
    SELECT r.device, s.temp AS answer
    FROM requests [RANGE 2 SECONDS] r JOIN replies [RANGE 2 SECONDS] s
    ON r.id = s.id AND s.temp > r.temp + 0.5
    WHERE r.kind = 'A'
    RECALL 0.95 OVER 1 MINUTE [EVERY 1 SECOND] [IDLE 10 MINUTES] [AHEAD 1 HOUR]
    [POLICY NEEDED_SLACK | PER_SOURCE | PAPER] [SPARE 1024 ROWS]

Instead of the equality a band, ``ABS(r.x - s.x) <= 5``, or a distance, ``DISTANCE(r.x, r.y, s.x, s.y) <= 5``.

Results of three to eight streams, one row of each, each found once (``MultiwayQuery``):

    SELECT a.src, a.uid, b.bytes, c.alert
    FROM conn [10 MINUTES] a JOIN flows [10 MINUTES] b ON a.src = b.src JOIN alerts [1 HOUR] c ON b.src = c.src
    [SLACK 5 MINUTES | RECALL 0.95 OVER 1 MINUTE] [IDLE 10 MINUTES] [AHEAD 1 HOUR] [ROUTING SMJH]

Aggregates of a join of two to six streams, at every tick (``AggregateQuery``):

    SELECT location, COUNT(*), AVG(b.strength) AS strength
    FROM a [10 MINUTES], b [1 HOUR]
    WHERE a.location = b.location AND a.temperature >= 40
    GROUP BY location HAVING COUNT(*) > 5 AND strength > 0.6
    EVERY 1 MINUTE [SLACK 5 MINUTES] [IDLE 10 MINUTES] [AHEAD 1 HOUR] [METHOD FACTORISED | ...] [ALARM]

In the last two every stream has a window of its own, and only equalities of columns join them.

Rows of one stream (``SelectionQuery``), by comparisons and by predicates of the operator's own (``predicates.py``):

    SELECT src, dest, service FROM conn
    WHERE proto = 'tcp' AND resp_bytes > 1000 AND looks_scanned(service, history)
    [DEADLINE 600 MILLISECONDS]

In the other three a predicate is a condition on one stream too, in ON as well as in WHERE, but not in HAVING:

    SELECT a.src, b.bytes FROM conn [RANGE 1 MINUTE] a JOIN flows b ON a.uid = b.uid
    WHERE looks_scanned(a.service, a.history) AND b.bytes > 1000
    RECALL 0.95 OVER 1 MINUTE

What cannot be run is refused with line, column, reason and what is expected. sqlglot is imported when there is a text.
"""

from collections.abc import Collection, Iterable, Mapping, Set
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from lakehouse.config.columns import NAME
from lakehouse.config.problems import Problem
from lakehouse.config.stream import Stream
from lakehouse.queries.kind import Query, kinds
from lakehouse.queries.language.predicates import FOLDER, Find, called_before, find_predicate
from lakehouse.queries.language.text import check_clauses, cut
from lakehouse.queries.language.tokens import Faults, QueryError
from lakehouse.queries.language.tree import Asked, form_of, tree_of

__all__ = ["Query", "QueryError", "parse_query", "read_queries"]


def read_queries(
    folder: Path, streams: Mapping[str, Stream], problems: list[Problem], refused: Collection[str] = ()
) -> dict[str, Query]:
    """Return the queries of a folder's ``*.sql`` files, sorted by name; what is wrong with any is added to problems.

    Predicates of the operator's own are in the folder ``predicates`` beside it.
    ``refused``: streams that are declared wrongly; that a query's stream is one of them is not told again.
    """
    queries: dict[str, Query] = {}
    for path in sorted(folder.glob("*.sql")):
        key = f"{folder.name}/{path.name}"
        if not NAME.match(path.stem):
            problems.append(Problem(key, repr(path.stem), "a name of lower-case letters, digits and _"))
            continue
        try:
            text = path.read_text(encoding="utf-8")
            queries[path.stem] = parse_query(path.stem, text, streams, folder.parent / FOLDER)
        except UnicodeDecodeError as error:
            problems.append(Problem(key, str(error), "UTF-8"))
        except OSError as error:
            problems.append(Problem(key, error.strerror or str(error), "a file that can be read"))
        except QueryError as error:
            told = [fault for fault in error.faults if fault.about not in refused]
            problems.extend(Problem(f"{key}:{f.line}:{f.column}", f.reason, f.expected) for f in told)
    return queries


def by_query(problems: Iterable[Problem]) -> dict[str, tuple[Problem, ...]]:
    """Return the problems of files of queries by the name of the query."""
    found: dict[str, tuple[Problem, ...]] = {}
    for problem in problems:
        name = problem.key.rpartition("/")[2].partition(".sql")[0]
        found[name] = (*found.get(name, ()), problem)
    return found


def as_published(
    faulty: Iterable[str], published: Mapping[str, Mapping[str, Any]], streams: Mapping[str, Stream]
) -> dict[str, Query]:
    """Return queries whose files, or those of their predicates, are wrong now, as a version was made of them.

    ``published``: the rows of queries in that version, by name.
    """
    found = {}
    # What is a counter now may have been none then.
    streams = {name: stream.model_copy(update={"counters": ()}) for name, stream in streams.items()}
    for name in published.keys() & set(faulty):
        with suppress(QueryError):
            query = _read(name, published[name]["statement"], streams, called_before)
            found[name] = replace(query, description=published[name]["description"])
    return found


def parse_query(name: str, text: str, streams: Mapping[str, Stream], predicates: Path | None = None) -> Query:
    """Return the query that a text is, of the kind that its SELECT asks for.

    ``predicates``: the folder of the operator's own ones. Raises QueryError with every fault found, and line, column
    and reason of the first.
    """
    return _read(name, text, streams, partial(find_predicate, predicates))


def _read(name: str, text: str, streams: Mapping[str, Stream], predicates: Find) -> Query:
    faults = Faults(text)
    query = _query(name, text, streams, predicates, faults)
    if faults.found or query is None:
        raise QueryError(name, faults.found)
    return query


def _query(
    name: str, text: str, streams: Mapping[str, Stream], predicates: Find, faults: Faults
) -> Query | None:
    parts = cut(text, faults)
    tree = tree_of(parts, faults) if parts and parts.is_plain else None
    if parts is None or tree is None:
        return None
    parse = _parser_of({form_of(tree, parts), *parts.clauses.places})
    check_clauses(parts.clauses, parse.GRAMMAR, faults)
    query: Query | None = parse.read(Asked(name, parts, tree, streams, predicates, faults))
    return query


def _parser_of(signs: Set[str]) -> ModuleType:
    """Return the parser of the kind that a form of SELECT, or a clause, stands for."""
    # Those registered later come first: they may take texts away from those before.
    parsers = [kind.file("parse") for kind in reversed([*kinds()])]
    return next(parse for parse in parsers if parse.GRAMMAR.known_by in signs)
