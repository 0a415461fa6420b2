from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from lakehouse.cli.commands.corrections.retract import _resting, _tell
from tests.cli.conftest import Tidemark
from tests.queries import joined
from tests.serving.streams import write_delta

WHO = ("--by", "ann", "--why", "broken probe")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("rivers", "--file", "x", *WHO), "no stream 'rivers'; declared: flows, telemetry"),
        (("telemetry", "--file", "x", "--why", "wrong"), "--by and --why: both are needed, for the record"),
        (("telemetry", *WHO), "name the rows by --file, --where or --identity"),
        (
            ("telemetry", "--identity", "device=a", *WHO),
            "--identity: found device; expected every column of the identity: device, ts",
        ),
        (
            ("telemetry", "--where", "device", *WHO),
            "--where: found 'device'; expected KEY=VALUE, each key once",
        ),
        (("telemetry", "--file", "x", "--from", "soon", *WHO), "--from: found 'soon'; expected an ISO time"),
    ],
)
def test_what_is_asked_wrongly_is_refused_before_anything_starts(
    called: Tidemark, arguments: tuple[str, ...], told: str
) -> None:
    called("init")

    ended = called("retract", *arguments)

    assert ended.returncode == 2
    assert told in ended.stderr


@pytest.mark.slow
def test_the_record_is_shown_without_a_jvm(tidemark: Tidemark, tmp_path: Path) -> None:
    tidemark("init")
    folder = tmp_path / "var" / "corrections" / "telemetry"
    folder.mkdir(parents=True)
    told = {
        "number": 1,
        "kind": "retract",
        "by": "ann",
        "why": "broken probe",
        "what": "device",
        "condition": "x",
    }
    told |= {"from_us": 1, "to_us": 2, "through": 3, "rows": 4, "unchecked": 0, "at": "2026-01-01"}
    rows = [told | {"done": done, "batches": [(3, 4)]} for done in (0, 1)]
    table = pa.Table.from_pylist(rows, pa.schema([(name, _type(name)) for name in rows[0]]))
    _write(table, folder)

    ended = tidemark("retract", "telemetry", "--list", "--json")

    (record,) = json.loads(ended.stdout)
    assert (record["done"], record["by"], record["batches"]) == (1, "ann", {"3": 4})
    assert "broken probe" in tidemark("retract", "telemetry", "--list").stdout


def test_queries_from_which_the_next_run_withdraws_what_rests_on_the_rows_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = joined.declare(tmp_path, new=joined.TEXT, replies=joined.TEXT)
    assert _resting(settings, "flows") == []
    joined.run_by_hand(settings)

    kept = _resting(settings, "flows")
    taken = {"rows": 4, "batches": 1, "from_us": 0, "to_us": 1, "withdraws_from": kept}
    _tell("flows", taken, dry_run=False, as_json=False)

    # The other has taken in nothing yet.
    assert kept == ["replies"]
    assert _resting(settings, "doors") == []
    assert "what replies found with them is withdrawn by the next run" in capsys.readouterr().out


def _type(name: str) -> pa.DataType:
    if name == "batches":
        return pa.map_(pa.int64(), pa.int64())
    return pa.string() if name in ("kind", "by", "why", "what", "condition", "at") else pa.int64()


def _write(table: pa.Table, folder: Path) -> None:
    """Write a table with a map, which the log's schema is not read for."""
    write_delta(table.drop(["batches"]), folder)
    pa.parquet.write_table(table, folder / "part-0.parquet")
