"""The way of a row: from a source through ingest into raw, quarantine and ledger, and on into the rollup."""

from __future__ import annotations
