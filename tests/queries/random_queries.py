"""Random queries over ints, decimals and doubles at the edges of their types, against fractions: how many are wrong.

    python -m tests.queries.random_queries [QUERIES] [--seed SEED]

Each is read from its text, and its rows are taken in as tasks do. A third are aggregates of two streams and a third
of three in a chain, by a method drawn from all, in batches, with restarts, late rows and a repair; a third are pairs.
"""

import argparse
import json
import time
from collections.abc import Callable

from tests.queries.aggregate.exact_queries import CHAIN
from tests.queries.aggregate.exact_queries import wrong as wrong_aggregate
from tests.queries.pairs.exact_conditions import wrong as wrong_pairs


def wrong_chain(seed: int) -> str | None:
    return wrong_aggregate(seed, CHAIN)


KINDS: dict[str, Callable[[int], str | None]] = {
    "aggregates": wrong_aggregate,
    "aggregates of chains": wrong_chain,
    "pairs": wrong_pairs,
}


def main() -> None:
    """Print what is wrong, and for each kind its queries, how many of them are wrong, and seconds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("queries", nargs="?", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    all_wrong = 0
    for place, (kind, is_wrong) in enumerate(KINDS.items()):
        started, seeds = (
            time.perf_counter(),
            range(asked.seed + place, asked.seed + asked.queries, len(KINDS)),
        )
        found = [each for each in map(is_wrong, seeds) if each]
        seconds, all_wrong = round(time.perf_counter() - started, 1), all_wrong + len(found)
        for each in found:
            print(each)
        print(
            json.dumps({"kind": kind, "queries": len(seeds), "wrong": len(found), "seconds": seconds}),
            flush=True,
        )
    raise SystemExit(all_wrong > 0)


if __name__ == "__main__":
    main()
