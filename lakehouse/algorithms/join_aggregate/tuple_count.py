"""TC and GTC: of two streams every row carries how many of its results end with it, and what they come to."""

from lakehouse.algorithms.join_aggregate.choice import refuse_unless_able
from lakehouse.algorithms.join_aggregate.contract import Shape
from lakehouse.algorithms.join_aggregate.multiway import Multiway


class TupleCount(Multiway):
    """COUNT, SUM, MIN and MAX of a join of two streams, by group; AVG is a sum by its count.

    A row's CV is the number of results that are credited to it, its MV the best value among them: ``Multiway`` for two
    sides, where a row that enters meets one other window, by all attributes that both carry. Cost and guarantee are
    those of ``Multiway``; a row's partial results are its partners.

    Raises:
        ValueError: the shape has more than two sides.

    >>> import numpy as np
    >>> from lakehouse.algorithms.join_aggregate.contract import Rows, Shape
    >>> counts = TupleCount(Shape(attributes=((0,), (0,)), grouped=(False, False)))
    >>> rows = Rows.of([0, 1, 1], enter_us=[0, 5, 9], leave_us=[10, 15, 19], keys=[[7], [7], [7]])
    >>> counts.advance(rows, np.array([0, 5, 10, 11])).results.tolist()
    [1, 2]

    Reference: Wang et al., continuous J-A queries, sections 1.2 and 2.1; differs from the paper as ``Multiway`` does.
    """

    def __init__(self, shape: Shape) -> None:
        refuse_unless_able("tuple_count", shape)
        super().__init__(shape)
