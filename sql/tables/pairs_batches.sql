-- queries/<query>: one row is one bucket in one finished batch of a query; written last, so it says that the batch is done.
CREATE TABLE IF NOT EXISTS delta.`{path}` (
    batch BIGINT COMMENT 'the batch of the query: 1, 2, 3, ...',
    bucket INT COMMENT 'the bucket; -1: the batch as a whole, where no bucket had anything to do',
    rows BIGINT COMMENT 'rows taken in',
    pairs BIGINT COMMENT 'pairs found online',
    missed BIGINT COMMENT 'rows logged: they may have missed partners',
    refused BIGINT COMMENT 'rows whose clock is ahead',
    unusable BIGINT COMMENT 'rows with a null key, or no usable number: they never join',
    late_after_silence BIGINT COMMENT 'rows that were late for a side that had been silent',
    held BIGINT COMMENT 'rows held after the batch',
    most_held BIGINT COMMENT 'most rows held, of the moments when slack was chosen',
    bytes BIGINT COMMENT 'size of its state',
    left_slack_us BIGINT COMMENT 'slack of the left side after the batch, with what it waits for silent sources',
    right_slack_us BIGINT COMMENT 'slack of the right side after the batch, with what it waits for silent sources',
    time_us BIGINT COMMENT 'stream time after the batch; null before both sides have a time',
    left_newest_us BIGINT COMMENT 'newest event time believed of the left side',
    right_newest_us BIGINT COMMENT 'newest event time believed of the right side',
    missed_us ARRAY<BIGINT> COMMENT 'ranges of time that contain its logged rows: first, last, first, last, ...',
    horizon_us BIGINT COMMENT 'the latest time up to which a logged row was late',
    committed_at TIMESTAMP COMMENT 'when the batch was finished'
) USING DELTA
COMMENT 'what each batch of a query did'
TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'batch,bucket')
