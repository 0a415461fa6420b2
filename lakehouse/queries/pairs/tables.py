"""The tables of a join of pairs as rules judge them."""

from lakehouse.algorithms.late_join.conditions import Equality
from lakehouse.queries.pairs.query import PairsQuery
from lakehouse.queries.runtime.recall.tables import RecallTables


class PairsTables(RecallTables):
    """A join's tables and periods."""

    query: PairsQuery

    @property
    def is_once(self) -> bool:
        """True if each row is taken in once; bands and distances use a row in several buckets."""
        return isinstance(self.query.condition, Equality)


tables_of = PairsTables
