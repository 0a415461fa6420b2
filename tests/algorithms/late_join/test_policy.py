from __future__ import annotations

import pytest

from tests.oracles.late_join.constant_slack import ConstantSlack


def test_the_constant_slack_is_what_was_declared() -> None:
    policy = ConstantSlack(3, 4, step_us=5)
    policy.restore(policy.snapshot())

    assert (policy.choose(0), policy.choose(10**9), policy.step_us) == ((3, 4), (3, 4), 5)


@pytest.mark.parametrize("wrong", [(-1, 0, 1), (0, -1, 1), (0, 0, 0)])
def test_a_slack_below_zero_or_no_step_is_refused(wrong: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="slacks from 0"):
        ConstantSlack(*wrong)
