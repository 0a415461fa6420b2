from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import pytest

from infra.compile_kernels import compile_aggregates, compile_others, compile_pairs


@pytest.mark.parametrize(
    ("compile_loops", "kernels"),
    [
        (compile_pairs, ("late_join.qjoin_kernels.join_rows", "late_join.repair_kernels.join_in_order")),
        (
            compile_aggregates,
            ("join_aggregate.factorised_kernels.answer", "join_aggregate.credit_kernels.enter_rows"),
        ),
        (
            compile_others,
            ("multiway_join.exhaustive.cheapest_by_set", "scheduling.turns_kernels.next_queue"),
        ),
    ],
)
def test_set_up_reaches_the_loops_of_every_kind(
    compile_loops: Callable[[], None], kernels: tuple[str, ...]
) -> None:
    compile_loops()

    for kernel in kernels:
        module, _, name = kernel.rpartition(".")
        assert getattr(import_module(f"lakehouse.algorithms.{module}"), name).signatures
