"""A batch of a window join: every bucket in one call, then its state, its pairs and log, and last its metrics.

Pairs and log of a batch that is not finished may be there already; they are those that it will have.
"""

from dataclasses import dataclass, replace

from lakehouse.algorithms.late_join.conditions import Equality
from lakehouse.engine.parts import sink_of
from lakehouse.queries.pairs.bucket import PAIR, BucketJoin, Newest
from lakehouse.queries.pairs.held_join import SIDE_PARTS, policy_of
from lakehouse.queries.pairs.query import PairsQuery
from lakehouse.queries.pairs.rows import side_rows
from lakehouse.queries.runtime.batch_manifest import ONE, BatchManifest, Wanted
from lakehouse.queries.runtime.recall.needed_slack import missed_by_bucket
from lakehouse.queries.runtime.retracted import Forgetting, Retracted
from lakehouse.queries.runtime.run import QueryRun
from lakehouse.queries.runtime.source import RowSource
from lakehouse.queries.runtime.tasks.bucket import LOG
from lakehouse.queries.runtime.tasks.by_bucket import Answered, BatchKernel, Output, run_buckets
from lakehouse.spark import tables
from lakehouse.storage.crashpoint import crash_point
from lakehouse.storage.layout import Home
from lakehouse.storage.tables.table_log import bounds


@dataclass(frozen=True)
class PairsRun(QueryRun[PairsQuery]):
    """A registered window join and where it runs."""

    counts = ("rows", "pairs", "missed", "refused", "unusable")

    @property
    def cut(self) -> Wanted:
        """The number of buckets of a new batch.

        One if a watched source could send rows to several. By a band or a distance a right row is held by each bucket
        in which it may have partners, so such a query is divided only for the cores of tasks.
        """
        if not self.query.is_divided:
            return ONE
        if isinstance(self.query.condition, Equality):
            return self.wanted
        return replace(self.wanted, least=1, divides_rows=False)

    def finish(self, manifest: BatchManifest, source: RowSource) -> dict[str, int]:
        """Append all that a batch comes to, its metrics last; return its totals."""
        layout, name, batch = self.layout, self.query.name, manifest.number
        found = self._answered(manifest, source)
        states, pairs, log = found.entries
        crash_point("queries.joined")
        self.commit_states(states, batch)
        tables.side_by_side(
            lambda: self.commit(pairs, layout.pairs(name), "online", batch),
            lambda: self.commit(log, layout.missed_rows(name), "online", batch),
        )
        crash_point("queries.outputs-appended")
        totals = {count: sum(row[count] for row in found.metrics) for count in self.counts}
        source.record_metrics(totals["rows"], totals["pairs"])
        self.append_metrics(found.metrics or [{"bucket": -1}], batch)
        return totals

    def forget(self, retracted: Retracted, manifest: BatchManifest) -> None:
        """Take retracted rows out of the segments of their sides, and have processes read all segments anew."""
        through, parts = manifest.spans[0][1], frozenset(SIDE_PARTS[side] for side in retracted.sides)
        work = Forgetting(retracted, parts, through, f"withdrawn {manifest.number}")
        self.remove(self.layout.states(self.query.name), work, None, manifest, work.instead)
        crash_point("withdrawal.state-replaced")

    def _answered(self, manifest: BatchManifest, source: RowSource) -> Answered:
        """Run all buckets over a batch; they write their states, pairs and log."""
        layout, query, batch = self.layout, self.query, manifest.number
        missed = missed_by_bucket(layout, query, manifest, policy_of(query))
        files = self.state_files(manifest)
        before = self.state_before(manifest, files)
        work = BucketJoin(query, before, newest(layout, query.name, batch), missed)
        pairs, log = sink_of(layout.pairs(query.name)), sink_of(layout.missed_rows(query.name))
        outputs = (
            self.states_output(batch),
            Output(PAIR, pairs, {"found": "online", "batch": batch}),
            Output(LOG, log, {"batch": batch}),
        )
        rows = side_rows(source, query, self.streams, manifest.buckets)
        kernel = BatchKernel(work, files, manifest.scales)
        step = f"query {query.name}, batch {batch}"
        return run_buckets(self.engine, step, rows, manifest.buckets, kernel, outputs)


def newest(layout: Home, query: str, batch: int) -> Newest:
    """Return the newest time believed of each side in the batches before this one."""
    columns, before = ("left_newest_us", "right_newest_us"), ("batch", 1, batch - 1)
    (_, left), (_, right) = bounds(layout.queries(query), columns, before)
    return left, right


run_of = PairsRun.of
