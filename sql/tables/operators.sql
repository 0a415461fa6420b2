-- queries/<query> of a selection: one row is one operator in one finished batch, what was measured of it and what the next
-- batch begins with; written last, so it says that the batch is done. All of it is the history of the query's plans.
-- operators/<query> of a join or an aggregate that calls predicates: the same of the conditions on each side, and of the kernel
-- behind them; written before the figures that finish the batch.
CREATE TABLE IF NOT EXISTS delta.`{path}` (
    batch BIGINT COMMENT 'the batch of the query: 1, 2, 3, ...',
    side INT COMMENT 'of a join: whose conditions they are, 0, 1, ... in the order of its definition; null: its kernel',
    operator INT COMMENT 'its place in the written order, from 0; -1: the batch as a whole',
    name STRING COMMENT 'the condition, or the kernel, as one line; null for the batch as a whole',
    position INT COMMENT 'its place in the order that the next batch begins with, from 0',
    taken BIGINT COMMENT 'rows that came to it',
    passed BIGINT COMMENT 'rows that it let through; of a kernel, results',
    busy_us BIGINT COMMENT 'time that it worked for this query; verdicts that another query had asked for cost none',
    handled_per_s DOUBLE COMMENT 'n, rows that it handles a second, over all queries that share it; as before where no row came to it',
    selectivity DOUBLE COMMENT 'S, share of its rows that it let through; as before where no row came to it',
    priority DOUBLE COMMENT 'rows that it takes out of the system a second, by which the next batch gives turns',
    slice_us BIGINT COMMENT 'how long a turn of it may last when the next batch begins',
    waited BIGINT COMMENT 'most rows that waited in front of it, in any task',
    rows BIGINT COMMENT 'of the batch as a whole: rows looked at',
    selected BIGINT COMMENT 'of the batch as a whole: rows selected',
    pieces BIGINT COMMENT 'of the batch as a whole: pieces of rows that were put out',
    misses BIGINT COMMENT 'of the batch as a whole: pieces that were put out later than the deadline after the work began',
    delay_us BIGINT COMMENT 'of the batch as a whole: mean time from the start of the work until a piece was put out',
    worst_delay_us BIGINT COMMENT 'of the batch as a whole: the longest such time',
    arrived_per_s DOUBLE COMMENT 'of the batch as a whole: V, rows of the stream a second that a task took in',
    switch_us DOUBLE COMMENT 'of the batch as a whole: what it took to turn from one operator to another',
    tau_us BIGINT COMMENT 'of the batch as a whole: length of the interval between plans that the next batch begins with',
    changes BIGINT COMMENT 'of the batch as a whole: how often tasks changed their order while they ran',
    tasks INT COMMENT 'of the batch as a whole: tasks that ran it',
    together INT COMMENT 'of the batch as a whole: queries that were run in one pass, this one among them',
    queue_bytes BIGINT COMMENT 'of the batch as a whole: most bytes that waited in one task, of all queries in the pass',
    time_us BIGINT COMMENT 'newest event time of the rows looked at; null without rows',
    committed_at TIMESTAMP COMMENT 'when the batch was finished'
) USING DELTA
COMMENT 'operators of a query: what was measured in each batch'
TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'batch,operator')
