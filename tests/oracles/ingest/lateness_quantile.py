"""The quantile of late rows' lateness, read from the histogram of the ledger: the yardstick of what a file answers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def quantile_us(bins: npt.NDArray[np.int64], q: float) -> int:
    """Return an upper bound of the q-quantile of late rows' lateness, exact to a factor of two; 0 for no late rows."""
    total = int(bins.sum())
    if total == 0:
        return 0
    place = int(np.searchsorted(np.cumsum(bins), q * total))
    return int(2 ** (place + 1)) * 1000
