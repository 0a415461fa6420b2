-- queries/<query> of three streams or more: one row is what became of one side's new rows in one finished batch; written
-- last, so it says that the batch is done.
CREATE TABLE IF NOT EXISTS delta.`{path}` (
    batch BIGINT COMMENT 'the batch of the query: 1, 2, 3, ...',
    side INT COMMENT 'the side, in the order of the query; -1: the batch as a whole',
    rows BIGINT COMMENT 'rows taken in',
    refused BIGINT COMMENT 'rows whose clock is ahead',
    unusable BIGINT COMMENT 'rows with a null key: they never join',
    missed BIGINT COMMENT 'rows logged: some that they join may have left their windows',
    slack_us BIGINT COMMENT 'how much longer than its window rows of the side were held for the batch',
    visits ARRAY<INT> COMMENT 'the sides that the rows met, in this order; none where no row could join',
    planned ARRAY<BIGINT> COMMENT 'rows that were to leave the site, and then each stop; at most',
    moved ARRAY<BIGINT> COMMENT 'rows that left the site, and then each stop',
    planned_cost DOUBLE COMMENT 'what moving the planned rows costs, messages included',
    real_cost DOUBLE COMMENT 'what moving those that moved costs, messages included',
    matching DOUBLE COMMENT 'share of the rows that can match, as far as it is known; at most 1',
    held BIGINT COMMENT 'rows in the window after the batch; at most',
    joined STRING COMMENT 'of the batch as a whole: plain, or pruned by counts of keys',
    why STRING COMMENT 'of the batch as a whole: why it was joined so',
    lost_s DOUBLE COMMENT 'of the batch as a whole: seconds that pruning would have saved, by estimate, since it was last used',
    results BIGINT COMMENT 'of the batch as a whole: results found online',
    shuffled BIGINT COMMENT 'of the batch as a whole: bytes that Spark shuffled',
    collected BIGINT COMMENT 'of the batch as a whole: bytes that went through the driver: counts, filters, rows sent to all executors',
    bytes BIGINT COMMENT 'of the batch as a whole: size of its state, windows apart',
    missed_us ARRAY<BIGINT> COMMENT 'of the batch as a whole: ranges of time that contain its logged rows: first, last, first, last, ...',
    horizon_us BIGINT COMMENT 'of the batch as a whole: the latest time up to which a logged row was late',
    time_us BIGINT COMMENT 'the time that all streams have passed; null before all have one',
    newest_us ARRAY<BIGINT> COMMENT 'newest event time believed of each side',
    committed_at TIMESTAMP COMMENT 'when the batch was finished'
) USING DELTA
COMMENT 'what each batch of a join of three streams or more did'
TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'batch,side')
