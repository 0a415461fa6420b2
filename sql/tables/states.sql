-- states/<query>: one row is one part of what a bucket holds after a batch; the last batch alone counts.
CREATE TABLE IF NOT EXISTS delta.`{path}` (
    bucket INT COMMENT 'the bucket',
    part STRING COMMENT 'name of the part, in the method''s own format',
    content BINARY COMMENT 'the part',
    batch BIGINT COMMENT 'the batch of the query after which it was so'
) USING DELTA
COMMENT 'state of a query'
TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'batch')
