from __future__ import annotations

import subprocess
import sys

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.simulator.arrays import booleans, constant, doubles, integers, strings


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_integers_come_back(values: list[int]) -> None:
    assert integers(np.array(values, np.int64)).to_pylist() == values


@given(st.lists(st.floats(allow_nan=False)))
def test_doubles_come_back(values: list[float]) -> None:
    assert doubles(np.array(values, np.float64)).to_pylist() == values


@given(st.lists(st.booleans()))
def test_booleans_come_back(values: list[bool]) -> None:
    assert booleans(np.array(values, np.bool_)).to_pylist() == values


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_strings_come_back(values: list[str]) -> None:
    assert strings(values).to_pylist() == values


def test_a_slice_is_taken_as_it_looks() -> None:
    assert integers(np.arange(10)[::3]).to_pylist() == [0, 3, 6, 9]


def test_a_constant_keeps_bytes_that_are_no_text() -> None:
    assert constant(b"\xc3\x28").as_py() == b"\xc3\x28"


def test_simulating_never_imports_pandas() -> None:
    program = (
        "import sys; from pathlib import Path; from tempfile import mkdtemp\n"
        "from lakehouse.simulator.plan import Faults, Plan; from lakehouse.simulator.simulate import simulate\n"
        "faults = Faults(0.1, 0.1, 0.1, 0.1, 0.1, 0.1)\n"
        "[simulate(Plan(name, 99, faults=faults), Path(mkdtemp())) for name in ('telemetry', 'flows')]\n"
        "sys.exit('pandas' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
