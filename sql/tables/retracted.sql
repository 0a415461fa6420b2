-- retracted/<stream>: one row is one raw row that a correction retracts; by its hash queries find what rests on it.
CREATE TABLE IF NOT EXISTS delta.`{path}` (
    correction BIGINT COMMENT 'number of the correction',
    event_us BIGINT COMMENT 'event time of the row',
    row BIGINT COMMENT 'the row: hash of its file, line and item, as results of queries have it'
) USING DELTA
COMMENT 'rows that were taken back out of raw'
TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'correction,event_us')
