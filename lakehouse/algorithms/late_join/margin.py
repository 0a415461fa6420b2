"""How much of the allowed loss a policy may use; the rest is for what the past does not tell."""

from __future__ import annotations


def usual_margin(recall: float) -> float:
    """Return the share of the allowed loss: a quarter, less above 0.98, where one burst is a whole allowance.

    >>> usual_margin(0.95), round(usual_margin(0.99), 9)
    (0.25, 0.125)
    """
    return min(0.25, 12.5 * (1 - recall))


def judged_share(recall: float, margin: float) -> float:
    """Return the share of pairs that the past must have reached for a recall to be expected.

    >>> judged_share(0.95, 0.25)
    0.9875
    """
    return 1 - margin * (1 - recall)
