from __future__ import annotations

import json
from pathlib import Path

from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.queries.runtime.batch_manifest import BatchManifest, write_manifest
from lakehouse.settings import load_settings
from tests.cli.conftest import Tidemark
from tests.queries.joined import declare


def test_a_manifest_of_a_stream_or_query_is_shown_and_one_that_is_not_there_is_refused(
    called: Tidemark, tmp_path: Path
) -> None:
    settings = declare(tmp_path)
    stream = next(iter(load_settings(tmp_path / "tidemark.toml").streams))
    ManifestStore(settings.layout.manifests(stream)).add_requeue(("clock",))
    write_manifest(settings.layout.batch_manifests("replies"), "repair", BatchManifest(2, ((1, 2),)))

    shown = json.loads(called("manifest", stream, "1", "--json").stdout)
    repair = json.loads(called("manifest", "replies", "2", "--repair").stdout)
    absent, unknown = called("manifest", stream, "2"), called("manifest", "rivers", "1")

    assert (shown["batch"], shown["kind"], shown["reasons"]) == (1, "requeue", ["clock"])
    assert (repair["number"], repair["spans"]) == (2, [[1, 2]])
    assert (absent.returncode, absent.stderr) == (2, f"tidemark: {stream} has no manifest 2\n")
    assert unknown.returncode == 2 and "no stream or query 'rivers'" in unknown.stderr
