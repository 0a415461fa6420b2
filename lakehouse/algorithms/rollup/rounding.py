"""Rounding of sums of doubles: bounds of their error, and the limit of exact ones, for every engine of the rollup.

``sql/serving`` has these numbers as places of their names in braces; the trees in ``tests/oracles`` import them.

A sum is kept as two doubles (runs.py), so that adding N values of size at most M in any order and grouping loses at
most ``3 N u^2`` of ``N M``, with u = EPS / 2: nothing beside one EPS for any N that fits in memory. What is left is a
number of roundings that does not depend on N:

    1 u    the sum of each node is read as one double
    6 u    bounds of a cut node: two products, a difference, a sum, and the k at which they bend
    3 u    Kahan's sum over the nodes read, and over the cut ones
    5 u    the additions at the end, the division by what digits are in, and the nearest double to the truth

Together 15 u; SUM_ROUNDING is 8 EPS.
Source: Joldes, Muller, Popescu, "Tight and rigorous error bounds for basic building blocks of double-word arithmetic",
ACM TOMS 44(2), 2017, algorithm 6; Higham, Accuracy and Stability of Numerical Algorithms, section 4.3 (Kahan).
"""

from lakehouse.algorithms.rollup.levels import KEPT_FOREVER_US

EPS = 2.0**-52
# Times the magnitude n * max(|m|, |M|), summed over the nodes read.
SUM_ROUNDING = 8 * EPS
# An end of digits that a double does not hold is off by 3 u: as stored, by its divisor and by its division.
QUOTIENT_ROUNDING = 2 * EPS
# Whole numbers below are exact as doubles, and so are their sums and differences while those stay below.
WHOLE_DOUBLES = 2**53
# Decimals of 15 digits are read back from their nearest double. Sums of a few whole numbers below stay below 2^53.
READ_BACK = 10**15
NAMED: dict[str, str] = {
    "eps": repr(EPS),
    "sum_rounding": repr(SUM_ROUNDING),
    "quotient_rounding": repr(QUOTIENT_ROUNDING),
    "whole_doubles": str(WHOLE_DOUBLES),
    "read_back": str(READ_BACK),
    "kept_forever_us": str(KEPT_FOREVER_US),
}
