"""Keys of equal hash: different values that ``xxhash64`` with Spark's seed cannot tell apart, as anybody can make them.

Two whole numbers collide by inverting the last round of the hash. The texts were found in a minute by sorting: those of
16 characters whose halves, mixed, differ in the same bits.
"""

from __future__ import annotations

import numpy as np

from lakehouse.algorithms.ingest import identity_hash

_WORD = 2**64
_P1, _P2, _P5 = (int(each) for each in (identity_hash._P1, identity_hash._P2, identity_hash._P5))

# Each line has one hash.
PAIRS_OF_TEXTS = (
    ("cen7pvc9ljqwuklq", "t6bew4mrubrt1zst"),
    ("xpjueh8wfeb0pf5l", "sow1555x6pgd5wxu"),
    ("r2jhe6hk5jrvo9zp", "cbx9cgzzotdagwmw"),
    ("vqtgslbdrsd48xd1", "8mtf8kwj460vemsq"),
    ("o8udfg1jrj15fgh0", "vfecivnszoq4fkt0"),
    ("b64iphg6nuup0j6b", "i260ezyu5capd11c"),
)


def colliding_integers(first: int, second: int, other: int) -> int:
    """Return the number behind ``other`` with which both hash as ``first`` and ``second`` do."""
    behind = (_of_one(first) + _P5 + 8) % _WORD ^ (_of_one(other) + _P5 + 8) % _WORD
    lane = _lane(second * _P2) ^ behind
    turned = lane * pow(_P1, -1, _WORD) % _WORD
    word = (turned >> 31 | turned << 33) % _WORD * pow(_P2, -1, _WORD) % _WORD
    return word - _WORD if word >= _WORD // 2 else word


def _of_one(number: int) -> int:
    hashed = identity_hash.with_integers(np.array([number]), np.array([identity_hash.SEED]))
    return int(hashed[0])


def _lane(value: int) -> int:
    value %= _WORD
    return (value << 31 | value >> 33) % _WORD * _P1 % _WORD


INTEGERS = ((1, 2), (3, colliding_integers(1, 2, 3)), (-4, colliding_integers(1, 2, -4)))
TEXTS = tuple((text,) for text in PAIRS_OF_TEXTS[0])
