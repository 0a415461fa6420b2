"""Verdicts on repeats: rows of an identity that was accepted before, over arrays sorted by identity and order."""

import numpy as np
import numpy.typing as npt

ACCEPTED, DUPLICATE, CONFLICT = 0, 1, 2
_OPEN = -1


def verdicts(
    identity: npt.NDArray[np.int64],
    payload: npt.NDArray[np.int64],
    event_us: npt.NDArray[np.int64],
    known: npt.NDArray[np.bool_],
    within_us: int,
) -> npt.NDArray[np.int8]:
    """Return one verdict per row as int8.

    A row meets its match when an accepted row of the same identity lies at most ``within_us`` of event time away:
    with the same payload as one such row it is a DUPLICATE, otherwise a CONFLICT; without a match it is ACCEPTED.

    ``identity`` (rows, 2), ``payload`` (rows,), ``event_us`` (rows,) int64 and ``known`` (rows,) bool are sorted by
    identity, and inside an identity known rows come first, then processing order.

    Each round takes the first row of every identity that is known or still open: it is accepted, and judges the
    rows behind it. Cost: O(rows) per round, as many rounds as one identity has accepted rows; one, mostly.
    """
    result = np.where(known, ACCEPTED, _OPEN).astype(np.int8)
    group = (
        np.cumsum(np.append(False, (identity[1:] != identity[:-1]).any(axis=1))) if len(payload) else identity
    )
    waiting = np.arange(len(payload))
    while len(waiting):
        _, first = np.unique(group[waiting], return_index=True)
        judges = waiting[first]
        result[judges] = ACCEPTED
        # Of each row the judging row of its identity, -1 where there is none this round.
        of_group = np.full(group[-1] + 1, -1)
        of_group[group[judges]] = judges
        judge = of_group[group]
        behind = (judge >= 0) & (np.arange(len(payload)) > judge) & (result != ACCEPTED)
        near = behind & (np.abs(event_us - event_us[judge]) <= within_us)
        same = near & (payload == payload[judge])
        result[near & (result == _OPEN)] = CONFLICT
        result[same] = DUPLICATE
        waiting = np.setdiff1d(waiting, judges, assume_unique=True)
        waiting = waiting[known[waiting] | (result[waiting] == _OPEN)]
    return result
