-- unchecked/<stream>: one row is one range of time and measure with rows that answers cannot be sure of: accepted ones that
-- may repeat forgotten ones, and rejected ones whose local time comes twice. An answer over such a time lies between the one
-- without these rows and the one with all of them.
CREATE TABLE IF NOT EXISTS delta.`{path}` (
    batch BIGINT COMMENT 'ingest batch that read the rows; of ranges that were joined, the first one',
    reason STRING COMMENT 'repeat: accepted, may repeat others; ambiguous_time: rejected, open until a later batch closes them',
    measure STRING COMMENT 'measure, or * for the rows themselves; empty in a row that closes ambiguous times of earlier batches',
    from_us BIGINT COMMENT 'event time of the earliest of them; of ambiguous times the first moment',
    to_us BIGINT COMMENT 'event time of the latest of them; of ambiguous times the second moment',
    n BIGINT COMMENT 'rows with a value',
    below DOUBLE COMMENT 'sum of the values below zero, or less',
    above DOUBLE COMMENT 'sum of the values above zero, or more',
    least DOUBLE COMMENT 'the least value, or less; null for *',
    greatest DOUBLE COMMENT 'the greatest value, or more; null for *'
) USING DELTA
COMMENT 'rows that came too late to be compared with all accepted ones, or whose moment is not known'
TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'batch,from_us,to_us')
