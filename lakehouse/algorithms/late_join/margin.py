"""Share of the allowed loss that a policy may use, and the number of rows that it may log.

The rest of the loss is for what the past does not tell.
"""

# What is held, in a bucket or of a join of many streams, whether it is needed or not: some 100 KB.
SPARE_ROWS = 1024
# Where fewer pairs of a period may be missed, one burst decides, and what logged rows missed is known badly.
FEW_MISSED = 50
# The share of the allowed loss for a policy that sees silences come: their bursts are no surprise.
SEEING_SILENCES = 0.5


def usual_margin(recall: float) -> float:
    """Return the share of the allowed loss: a quarter, less above 0.98, where one burst is a whole allowance.

    >>> usual_margin(0.95), round(usual_margin(0.99), 9)
    (0.25, 0.125)
    """
    return min(0.25, 12.5 * (1 - recall))


def few_pairs(recall: float) -> float:
    """Return with how many pairs a period no longer has few: so many that a few dozen may be missed.

    >>> round(few_pairs(0.95)), round(few_pairs(0.99))
    (1000, 5000)
    """
    return FEW_MISSED / (1 - recall)


def margin_of_few(recall: float) -> float:
    """Return the share for a policy that sees silences come, where a period has few pairs.

    >>> margin_of_few(0.95), round(margin_of_few(0.99), 9)
    (0.5, 0.25)
    """
    return 2 * usual_margin(recall)


def usual_logged(recall: float) -> float:
    """Return the share of rows that may be logged: a twentieth, and no more than a quarter of the allowed loss.

    What logged rows missed is only estimated: of few the estimate matters little.

    >>> usual_logged(0.5), round(usual_logged(0.99), 9)
    (0.05, 0.0025)
    """
    return min(0.05, (1 - recall) / 4)


def judged_share(recall: float, margin: float) -> float:
    """Return the share of pairs that the past must have reached for a recall to be expected.

    >>> judged_share(0.95, 0.25)
    0.9875
    """
    return 1 - margin * (1 - recall)
