"""Kinds of rows of a batch: late ones, which may have missed results, and those that join nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lakehouse.queries.runtime.tables import Constants, with_constants

if TYPE_CHECKING:
    from lakehouse.algorithms.multiway_join.contract import Bools

TAKEN = ("rows", "missed", "refused", "unusable")


def kinds_of(rows: pa.Table, is_new: Bools, horizon_us: int | None) -> dict[str, Bools]:
    """Return which new rows are of which kind, and which are new, by ``rows``; those before the horizon are late."""
    refused = rows["is_refused"].to_numpy()
    has_key, event = rows["key"].is_valid().to_numpy(), rows["event_us"].to_numpy()
    is_late = np.zeros(len(event), np.bool_) if horizon_us is None else event < horizon_us
    known = is_new & ~refused
    kinds = {
        "refused": is_new & refused,
        "unusable": known & ~has_key,
        "missed": known & has_key & is_late,
    }
    return {"rows": is_new, **kinds}


def logged_rows(
    rows: pa.Table, kinds: Mapping[str, Bools], horizon_us: int | None, batch: int, time_us: int | None
) -> pa.Table:
    """Return the rows of a batch that came late, and those that are refused, as the log has them."""
    horizons = {"missed": horizon_us, "refused": None}
    found = []
    for kind, horizon in horizons.items():
        own = rows.filter(pa.array(kinds[kind])).select(["side", "row", "event_us"])
        constants: Constants = {"what": kind, "bucket": 0, "horizon_us": horizon, "batch": batch}
        found.append(with_constants(own, {**constants, "time_us": time_us}))
    return pa.concat_tables(found, promote_options="permissive")
