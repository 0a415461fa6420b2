"""Slack by source: rows wait for a source that has fallen silent, and beside that for ordinary lag.

A burst of late rows is seen before it comes: its source stops sending. While a source of one side is silent, the
reference from which the other side's slack counts stands still at what that source reached; what it held
back finds its partners when it comes. Beside that, slack need only cover what is late without a silence, which
``NeededSlack`` counts, from that reference instead of from T: pairs that a silence would have cost need nothing.

    edge_z     max over time of min(T, least time that a silent source of the other side reached) - w
    H_z        max(H_z, edge_z - d_z)          d_z: least slacks with which the past met the recall from the edges

A source whose silences hold nothing back, such as one that has nothing to say at night, is not waited for after five
of them, until one holds rows back. One that has never held rows back is not waited for where few silences do: sources
that come and go end so. No wait lasts longer than four times the longest silence that did, or, before one has, than
``first_us``. Nor are silent sources waited for that together send no more rows, and find no more pairs, than the share
that the recall allows to be missed: one sensor of forty at a recall of 0.95.

Where the latest period has few pairs, neither what sources find nor what logged rows miss is known well: all silent
sources are waited for, no more rows are logged than by ``NeededSlack``, and above a recall of 0.98 less of the allowed
loss is used.

Guarantee: none for the future; a silence that is longer than ``gone_us`` is not waited for. Cost: that of
``NeededSlack``, O(1) a row and O(sources) a choice. Memory: 112 bytes a source that is watched, ``SLOTS`` a side at
most; more of them are not watched until others are gone, and their rows have the slack of ``NeededSlack``.

Source: ours.
"""

from typing import Any

from lakehouse.algorithms.late_join.kernels.source import make_known
from lakehouse.algorithms.late_join.margin import SEEING_SILENCES, few_pairs, margin_of_few, usual_logged
from lakehouse.algorithms.late_join.policy import Slacks
from lakehouse.algorithms.late_join.policy_needed_slack import NeededSlack, parts_of
from lakehouse.algorithms.late_join.sources import pack, unpack, watch_of

SLOTS = 1024


class PerSource(NeededSlack):
    """The slack policy that waits for silent sources.

    Args:
        recall, period_us, step_us: as ``NeededSlack`` takes them, and its other settings by name. By default half of
            the allowed loss as margin, as silences are seen and not guessed, and a twentieth of rows logged.
        gaps: how many of its usual gaps a source must be late to count as silent.
        seen: how many rows of a source tell its usual gap.
        drain: the share of a silence for which the source still counts as silent once it is heard.
        gone_us: stream time after which a silent source is not waited for any more, at least ``step_us``; the period
            by default.
        first_us: how long a silent source is waited for before any silence of its side has held rows back; a quarter
            of ``gone_us`` by default.
        spared: the share of rows, and of pairs, up to which silent sources are not waited for; what the recall allows
            to be missed by default.
        few: with fewer pairs in the latest period, what sources find and what logged rows miss is not relied on; by
            default 50 over what the recall allows to be missed, 1,000 pairs at 0.95.

    Raises ValueError as ``NeededSlack``; or a setting here is below 0, or ``gone_us`` below ``step_us``.
    """

    def __init__(
        self,
        recall: float,
        period_us: int,
        step_us: int = 1_000_000,
        *,
        gaps: float = 4.0,
        seen: int = 8,
        drain: float = 0.125,
        gone_us: int | None = None,
        first_us: int | None = None,
        spared: float | None = None,
        few: float | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(
            recall, period_us, step_us, **({"margin": SEEING_SILENCES, "logged": 0.05} | settings)
        )
        gone_us = period_us if gone_us is None else gone_us
        first_us = gone_us // 4 if first_us is None else first_us
        self.spared = 1 - recall if spared is None else spared
        self._few = few_pairs(recall) if few is None else few
        found = gaps, seen, drain, gone_us, first_us, self.spared, self._few
        if min(found) < 0 or gone_us < step_us:
            raise ValueError(f"expected settings from 0, and gone_us from step_us, {step_us}, found {found}")
        self.watch = watch_of(SLOTS, gaps=gaps, seen=seen, drain=drain, gone_us=gone_us, first_us=first_us)
        self._of_few = (
            settings.get("margin", margin_of_few(recall)),
            settings.get("logged", usual_logged(recall)),
        )

    def choose(self, time_us: int) -> Slacks:
        """Return the cheapest slacks, and let the watch know what sources sent and found since the last choice."""
        slacks = super().choose(time_us)
        make_known(self.watch, self.spared if self.pairs_of_latest_period >= self._few else 0.0)
        return slacks

    def parts(self) -> list[bytes]:
        """Return the parts of the snapshot: those of ``NeededSlack``, then the sources."""
        return [*super().parts(), pack(self.watch)]

    def restore(self, packed: bytes) -> None:
        """Become the policy that the snapshot was taken of; all settings must be the same."""
        super().restore(packed)
        unpack(self.watch, parts_of(packed)[-1])
