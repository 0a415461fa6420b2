from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.simulator.faults import BAD_CLOCK, CLEAN, CONFLICT, DIRT, KINDS, REASONS, decide, is_usable
from lakehouse.simulator.plan import Faults
from tests.simulator.plans import FAULTS


@given(rows=st.integers(1, 500), faults=FAULTS, seed=st.integers(0, 99))
def test_no_row_has_two_fates(rows: int, faults: Faults, seed: int) -> None:
    fates = decide(np.random.default_rng(seed), rows, faults)

    copied = np.concatenate([fates.repeated, fates.contradicted])
    assert len(np.unique(copied)) == len(copied)
    assert (fates.kind[copied] == CLEAN).all()


def test_dirt_is_spread_evenly_over_its_kinds() -> None:
    fates = decide(np.random.default_rng(1), 7000, Faults(dirt=0.1, bad_clocks=0.2))

    counts = np.bincount(fates.kind, minlength=len(KINDS))
    assert counts[1 : len(DIRT) + 1].tolist() == [100] * len(DIRT)
    assert (counts[BAD_CLOCK], counts[CONFLICT]) == (1400, 0)


def test_a_kind_is_usable_unless_it_has_a_reason() -> None:
    usable = is_usable(np.arange(len(KINDS)))

    assert [kind for kind, is_good in zip(KINDS, usable, strict=True) if not is_good] == list(REASONS)
