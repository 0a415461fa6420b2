"""Publish the streams whose totals agree; of one whose totals differ the last published state stays, as it is withheld.

A difference is known when the new file is complete, so the file of those that agree is a second one. That costs as much
as the first, and happens only where something is broken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lakehouse.serving.file.gate import TotalsDiffer
from lakehouse.serving.file.publish import Published, publish
from lakehouse.serving.file.query_snapshot import QuerySnapshot
from lakehouse.serving.file.snapshot import StreamSnapshot
from lakehouse.serving.file.withheld import Withheld
from lakehouse.storage.layout import Home


def publish_agreeing(
    home: Home,
    streams: Sequence[StreamSnapshot],
    queries: Sequence[QuerySnapshot],
    withheld: Sequence[Withheld],
    keep_versions: int,
    readers: Callable[[str], tuple[str, ...]],
    anew: bool = False,
) -> tuple[Published, TotalsDiffer | None, list[Withheld]]:
    """Publish as ``publish``; return also the totals that differ, and all streams that are withheld.

    ``readers``: the registered queries that read a stream.

    Raises:
        PublishRefused: if nothing can be published.
    """
    try:
        return publish(home, streams, keep_versions, queries, anew, withheld), None, list(withheld)
    except TotalsDiffer as found:
        differing = found
    agreeing = [one for one in streams if one.name not in differing.problems]
    because = {name: f"totals differ, {problem}" for name, problem in differing.problems.items()}
    both = [*withheld, *(Withheld(name, reason, readers(name)) for name, reason in because.items())]
    return publish(home, agreeing, keep_versions, queries, anew, both), differing, both
