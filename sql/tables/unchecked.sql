-- unchecked/<stream>: one row is one range of time and measure with accepted rows that may repeat forgotten ones.
-- An answer over such a time lies between the one without these rows and the one with all of them.
CREATE TABLE IF NOT EXISTS delta.`{path}` (
    batch BIGINT COMMENT 'ingest batch that accepted the rows; of ranges that were joined, the first one',
    measure STRING COMMENT 'measure, or * for the rows themselves',
    from_us BIGINT COMMENT 'event time of the earliest of them',
    to_us BIGINT COMMENT 'event time of the latest of them',
    n BIGINT COMMENT 'rows with a value',
    below DOUBLE COMMENT 'sum of the values below zero, or less',
    above DOUBLE COMMENT 'sum of the values above zero, or more',
    least DOUBLE COMMENT 'the least value, or less; null for *',
    greatest DOUBLE COMMENT 'the greatest value, or more; null for *'
) USING DELTA
COMMENT 'rows that came too late to be compared with all accepted ones'
TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'batch,from_us,to_us')
