"""Crash points of the product: each place between two commits where tests kill a process."""

CRASH_POINTS = (
    "ingest.manifest-written",
    "ingest.batch-parsed",
    "ingest.raw-appended",
    "ingest.quarantine-appended",
    "ingest.profile-appended",
    "ingest.ledger-appended",
    "rollup.before-append",
    "rollup.appended",
    "maintain.fold-written",
    "maintain.compacted",
    "publish.segment-written",
    "publish.file-written",
    "publish.pointer-moved",
)
# Passed by a publish of a home whose tables are on a store.
STORE_POINTS = ("publish.uploaded", "publish.listed")
# Passed by every commit to a table.
COMMIT_POINTS = ("table.files-written",)
# Passed by each task that has written a part of a table, which nobody has committed yet.
TASK_POINTS = ("task.part-written",)
# Passed by a check of a stream, the first one if it has rules about keys.
CHECK_POINTS = ("check.nodes-kept", "check.verdicts-appended", "check.batches-noted")
# Passed by an ingest whose batch fails again and again.
SPLIT_POINTS = ("split.rows-removed",)
# Passed by an ingest of rows older than what identities are known for.
UNCHECKED_POINTS = ("ingest.unchecked-appended",)
# Passed by an ingest of rows whose local time comes twice.
AMBIGUOUS_POINTS = ("ingest.ambiguous-appended",)
# Passed by corrections; an ordinary run makes none.
CORRECTION_POINTS = (
    "correction.begun",
    "correction.rows-noted",
    "correction.raw-deleted",
    "correction.rollup-replaced",
    "correction.ledger-corrected",
    "correction.done",
)
# Passed by an ingest whose rows revise others.
REVISION_POINTS = (
    "ingest.revised-written",
    "ingest.raw-appended",
    "ingest.ledger-appended",
    "correction.begun",
    "correction.rows-noted",
    "correction.raw-deleted",
    "correction.rollup-replaced",
    "correction.done",
)
# Passed by the correction that drops raw rows for their age.
RETENTION_POINTS = ("correction.begun", "correction.remembered", "correction.raw-deleted", "correction.done")
# Passed by the repair of a query whose results rest on rows that were retracted, of which kind it may be.
WITHDRAWAL_POINTS = (
    "repair.planned",
    "withdrawal.results-removed",
    "repair.answers-appended",
    "withdrawal.state-replaced",
    "repair.finished",
)
# Passed by the jobs of registered joins.
JOIN_POINTS = (
    "queries.planned",
    "queries.joined",
    "queries.state-appended",
    "queries.outputs-appended",
    "queries.finished",
    "repair.planned",
    "repair.pairs-appended",
    "repair.finished",
)
# Passed by the jobs of registered joins of three streams or more.
MULTIWAY_POINTS = (
    "queries.planned",
    "queries.counted",
    "queries.windows-appended",
    "queries.state-appended",
    "queries.outputs-appended",
    "queries.finished",
    "repair.planned",
    "repair.results-appended",
    "repair.finished",
)
# Passed by the job of registered selections.
SELECTION_POINTS = (
    "queries.planned",
    "queries.selected",
    "queries.outputs-appended",
    "queries.finished",
)
# Passed by a round of several queries. With a count, the second passage dies: one query is ahead of the others then.
ROUND_POINTS = (
    "queries.planned:2",
    "queries.finished",
    "queries.windows-appended",
    "queries.state-appended:2",
    "queries.measured:2",
)
# Passed by the jobs of registered aggregates that raise alarms.
AGGREGATE_POINTS = (
    "queries.planned",
    "queries.joined",
    "queries.state-appended",
    "queries.outputs-appended",
    "queries.alarmed",
    "queries.finished",
    "repair.planned",
    "repair.answers-appended",
    "repair.finished",
)
# Passed by the bridge, for each group of messages and each file.
LANDING_POINTS = (
    "landing.written",
    "landing.safe",
    "landing.acknowledged",
    "landing.landed",
)
