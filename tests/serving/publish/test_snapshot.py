from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from lakehouse.serving.publish.snapshot import fingerprint
from tests.serving.conftest import STREAMS


def test_the_order_of_streams_and_where_nodes_lie_decide_nothing(tmp_path: Path) -> None:
    flat, pair = (STREAMS[name].write(tmp_path / name) for name in ("flat", "pair"))

    elsewhere = replace(flat, nodes=tmp_path / "other", ledger=None, totals=())

    assert fingerprint([flat, pair]) == fingerprint([pair, elsewhere])


def test_every_fact_that_readers_see_decides(tmp_path: Path) -> None:
    flat = STREAMS["flat"].write(tmp_path)
    others = (
        replace(flat, batch=flat.batch + 1),
        replace(flat, newest_us=10**6),
        replace(flat, latest_us=1),
        replace(flat, groupings=((),)),
        replace(flat, quarantine={"clock": 1}),
    )

    assert len({fingerprint([snapshot]) for snapshot in (flat, *others)}) == 6
