-- retracted/<stream>: one row is one raw row that a correction retracts; by its place queries find what rests on it.
CREATE TABLE IF NOT EXISTS delta.`{path}` (
    correction BIGINT COMMENT 'number of the correction',
    event_us BIGINT COMMENT 'event time of the row',
    source_file STRING COMMENT 'its file',
    source_line BIGINT COMMENT 'its line',
    source_item INT COMMENT 'its place in the line'
) USING DELTA
COMMENT 'rows that were taken back out of raw'
TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'correction,event_us')
