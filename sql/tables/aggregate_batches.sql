-- queries/<query> of a join-aggregate: one row is one bucket in one finished batch, or the batch as a whole; written last.
CREATE TABLE IF NOT EXISTS delta.`{path}` (
    batch BIGINT COMMENT 'the batch of the query: 1, 2, 3, ...',
    bucket INT COMMENT 'the bucket; -1: the batch as a whole, whose row says what it answered',
    rows BIGINT COMMENT 'rows taken in',
    answered BIGINT COMMENT 'answers given for the first time: ticks and groups',
    revised BIGINT COMMENT 'answers that late rows have changed',
    late BIGINT COMMENT 'rows that came after a tick they belong to had been answered',
    missed BIGINT COMMENT 'rows logged: they belong to ticks that are behind the slack',
    refused BIGINT COMMENT 'rows whose clock is ahead',
    unusable BIGINT COMMENT 'rows with a null key: they never join',
    held BIGINT COMMENT 'rows held after the batch',
    bytes BIGINT COMMENT 'size of its state',
    missed_us ARRAY<BIGINT> COMMENT 'ranges of time that contain its logged rows: first, last, first, last, ...',
    horizon_us BIGINT COMMENT 'the latest time up to which a logged row was late',
    time_us BIGINT COMMENT 'ticks up to this time are answered; null before all streams have a time',
    newest_us ARRAY<BIGINT> COMMENT 'newest event time believed, of each side',
    committed_at TIMESTAMP COMMENT 'when the batch was finished'
) USING DELTA
COMMENT 'what each batch of a query did'
TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'batch,bucket')
