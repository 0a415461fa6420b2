-- states/<query>: what buckets hold. A row is a counter after a batch (content, no leave_us), a segment of rows that entered
-- with it (both), or a marker of the segments that are alive after it (leave_us, no content); see runtime/bucket.py.
CREATE TABLE IF NOT EXISTS delta.`{path}` (
    bucket INT COMMENT 'the bucket',
    part STRING COMMENT 'name of the counter, or of what segments hold',
    content BINARY COMMENT 'the counter or the rows, in the method''s own format; null of a marker',
    batch BIGINT COMMENT 'the batch of the query that wrote it; counters and markers of the last one count',
    leave_us BIGINT COMMENT 'of a segment the last time at which a row of it counts, of a marker the least that is alive; else null'
) USING DELTA
COMMENT 'state of a query'
TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'batch,leave_us')
