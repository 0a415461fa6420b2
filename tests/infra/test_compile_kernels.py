from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from infra.compile_kernels import compile_aggregates, compile_others, compile_pairs


@pytest.mark.parametrize(
    ("compile_loops", "kernels"),
    [
        (compile_pairs, ("late_join.kernels.qjoin.join_rows", "late_join.repair.join_in_order")),
        (
            compile_aggregates,
            (
                "join_aggregate.kernels.factorised.answer",
                "join_aggregate.kernels.view_tree.spread",
                "join_aggregate.kernels.credit.enter_rows",
            ),
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


@pytest.mark.slow
def test_a_run_of_every_kind_of_query_compiles_nothing_that_set_up_has_not(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.infra.signatures", str(tmp_path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr[-3000:]
    assert json.loads(ended.stdout[ended.stdout.index("{") :]) == {"added": {}, "by size": {}}
