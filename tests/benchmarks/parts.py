"""The command line of every benchmark: parts, each a module with ``figures(quick) -> dict``, run one after the other.

    if __name__ == "__main__":
        run_parts(__doc__, __package__, ("speed", "figures"), only_in_full=("spark_join",))

With ``--json`` each part prints one line as soon as it is done, an object of its figures and its name as ``part``.
"""

from __future__ import annotations

import argparse
import importlib
import json
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import psutil


def run_parts(
    description: str | None, package: str | None, parts: Sequence[str], only_in_full: Sequence[str] = ()
) -> None:
    """Run the parts that the command line names and print their figures.

    Without names all parts run; with ``--quick`` all but those ``only_in_full``, which start Spark or a service.
    """
    names = (*parts, *only_in_full)
    asked = _asked(description, names)
    for name in asked.parts or (parts if asked.quick else names):
        started, before = time.perf_counter(), cpu_s()
        found = importlib.import_module(f"{package}.{name}").figures(asked.quick)
        if asked.json:
            print(json.dumps({"part": name, **found}), flush=True)
        else:
            print("\n".join(f"{key:28} {value}" for key, value in found.items()), flush=True)
        wall, cpu = time.perf_counter() - started, cpu_s() - before
        print(f"{name:16} {wall:7.1f} s, {cpu:7.1f} s of processors", file=sys.stderr, flush=True)


def _asked(description: str | None, names: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, seconds instead of minutes, no pages"
    )
    parser.add_argument(
        "--json", action="store_true", help="print an object a part, each as soon as it is done"
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"only these: {', '.join(names)}")
    asked = parser.parse_args()
    if unknown := set(asked.parts) - set(names):
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    return asked


@contextmanager
def sampling(look: Callable[[], None], every_s: float) -> Iterator[None]:
    """Call a function again and again during the block, in a thread of its own."""
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(every_s):
            look()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        is_over.set()
        watcher.join()


def cpu_s() -> float:
    """Return the seconds of processors that this process and all its children, ended or alive, have used."""
    total = 0.0
    for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        used = resource.getrusage(whose)
        total += used.ru_utime + used.ru_stime
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            times = child.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total
