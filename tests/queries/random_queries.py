"""Random queries over texts, ints, decimals and doubles at the edges of their types, beside exact fractions.

    python -m tests.queries.random_queries [QUERIES] [--seed SEED] [--page FILES]

A query is read from its text, and its rows are taken in as tasks do. Half are aggregates of two to six streams, of
which some are one stream several times: joined by one key, in chains and trees, and in circles. Keys are of one column
or more and of any type, groups none to three columns of any side; HAVING compares exact measures with bounds and each
other. A sixth are pairs: comparisons, bands and distances, with keys and without. A sixth are results of three to five
streams, whose batches are joined from raw, from windows, or pruned. A sixth are selections, several in one scan.

Conditions on sides have LIKE with and without ESCAPE, IN, BETWEEN, IS, arithmetic and nulls; texts have %, _ and
backslashes. Times begin at 1970, before it, at 2^53 us, and at the first and the last day of timestamps. Rows come in
any order, in batches, with restarts; of aggregates and results some are retracted, and all are repaired. Aggregates,
pairs and results have a recall, some of them. The method, policy or way is drawn from those that can.

A line is printed for some seeds of each kind. ``--page`` sums up the lines of files, each seed once, on a page.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks import page
from tests.queries.aggregate.exact_queries import SHAPES
from tests.queries.aggregate.exact_queries import wrong as wrong_aggregate
from tests.queries.multiway.exact_results import wrong as wrong_results
from tests.queries.pairs.exact_conditions import wrong as wrong_pairs
from tests.queries.selection.exact_selections import wrong as wrong_selections

# Queries of a line.
SOME = 25
# The method and what is wrong.
Found = tuple[str, str | None]


def _aggregates(kind: str) -> Callable[[int], Found]:
    return lambda seed: wrong_aggregate(seed, kind)


KINDS: dict[str, Callable[[int], Found]] = {
    **{f"aggregates: {kind}": _aggregates(kind) for kind in SHAPES},
    "pairs": wrong_pairs,
    "results": wrong_results,
    "selections": wrong_selections,
}


def lines(queries: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield what some seeds of a kind came to: queries by method, what is wrong, and seconds."""
    last = seed + -(-queries // len(KINDS))
    for first in range(seed, last, SOME):
        for kind, is_wrong in KINDS.items():
            started, seeds = time.perf_counter(), range(first, min(first + SOME, last))
            found = [is_wrong(each) for each in seeds]
            seconds = round(time.perf_counter() - started, 1)
            methods = dict(Counter(method for method, _ in found))
            wrong = [each for _, each in found if each]
            yield {"kind": kind, "seeds": [*seeds], "methods": methods, "wrong": wrong, "seconds": seconds}


def write_page(files: list[str]) -> None:
    """Write the page of all lines of files: of seeds that occur twice the last line counts."""
    found = [
        json.loads(line) for file in files for line in Path(file).read_text().splitlines() if line[:1] == "{"
    ]
    newest = {(each["kind"], each["seeds"][0]): each for each in found}.values()
    rows = []
    for kind in KINDS:
        own = [each for each in newest if each["kind"] == kind]
        methods = Counter[str]()
        for each in own:
            methods.update(each["methods"])
        by_method = ", ".join(f"{method} {count:,}" for method, count in sorted(methods.items()))
        wrong, seconds = sum(len(each["wrong"]) for each in own), sum(each["seconds"] for each in own)
        rows.append([kind, methods.total(), wrong, round(seconds), by_method])
    total = [sum(row[column] for row in rows) for column in (1, 2, 3)]
    table = page.table(
        ("kind", "queries", "wrong", "seconds", "of them by method"), [*rows, ["all", *total, ""]]
    )
    page.write(
        "queries", "random_queries", "Random queries", __doc__ or "", table, by="tests.queries.random_queries"
    )


def main() -> None:
    """Print lines, or sum them up; end with 1 if a query is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("queries", nargs="?", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--page", nargs="+", metavar="FILE")
    asked, is_wrong = parser.parse_args(), False
    if asked.page:
        return write_page(asked.page)
    for line in lines(asked.queries, asked.seed):
        print(json.dumps(line), flush=True)
        is_wrong |= bool(line["wrong"])
    raise SystemExit(is_wrong)


if __name__ == "__main__":
    main()
