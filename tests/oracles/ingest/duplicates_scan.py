"""Yardstick for duplicates: compare each row, in processing order, with every row accepted before it."""

from __future__ import annotations

from collections.abc import Sequence

from lakehouse.algorithms.ingest.duplicates import ACCEPTED, CONFLICT, DUPLICATE


def verdicts(
    identity: Sequence[object],
    payload: Sequence[object],
    event_us: Sequence[int],
    known: Sequence[bool],
    within_us: int,
) -> list[int]:
    """Return one verdict per row, rows given in processing order.

    A row meets its match when an accepted row of the same identity lies at most ``within_us`` of event time away:
    with the same payload as one such row it is a DUPLICATE, otherwise a CONFLICT; without a match it is ACCEPTED.
    ``known`` rows were accepted by earlier batches. Cost: O(rows^2).
    """
    accepted: list[int] = []
    result: list[int] = []
    for row in range(len(identity)):
        matches = [
            earlier
            for earlier in accepted
            if identity[earlier] == identity[row] and abs(event_us[earlier] - event_us[row]) <= within_us
        ]
        same = any(payload[earlier] == payload[row] for earlier in matches)
        verdict = ACCEPTED if known[row] or not matches else DUPLICATE if same else CONFLICT
        if verdict == ACCEPTED:
            accepted.append(row)
        result.append(verdict)
    return result
