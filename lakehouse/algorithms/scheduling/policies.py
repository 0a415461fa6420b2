"""Every policy by the name that a configuration has for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from lakehouse.algorithms.scheduling.chain import ChainScheduling
from lakehouse.algorithms.scheduling.deadline_rounds import DeadlineRounds
from lakehouse.algorithms.scheduling.fifo import Fifo
from lakehouse.algorithms.scheduling.greedy import Greedy
from lakehouse.algorithms.scheduling.multifactor import MultiFactor
from lakehouse.algorithms.scheduling.policy import Policy

DEFAULT = "multifactor"
POLICIES: Mapping[str, Callable[[], Policy]] = {
    "fifo": Fifo,
    "greedy": Greedy,
    "chain": ChainScheduling,
    "multifactor": MultiFactor,
    "deadline_rounds": DeadlineRounds,
    "short_rounds": partial(DeadlineRounds, sheds=False),
}
