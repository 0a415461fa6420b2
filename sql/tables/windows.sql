-- windows/<query>: one row is a row of one stream that a join of three streams or more has taken in. Files stay at their
-- site: each is of one side, its rows in order of their slot, so that rows of a few slots are found without reading all.
-- The columns of the key, k_0 and so on, and those that results show stand at the end; those of other sides are null.
CREATE TABLE IF NOT EXISTS delta.`{path}` (
    side INT COMMENT 'the side of the join, in the order of the query: 0, 1, ...',
    slot INT COMMENT 'the slot that the row is counted in, by the hash of its key',
    key BIGINT COMMENT 'hash of the columns that must be equal',
    event_us BIGINT COMMENT 'its event time',
    source_file STRING COMMENT 'its file',
    source_line BIGINT COMMENT 'its line',
    source_item INT COMMENT 'its place in the line',
    batch BIGINT COMMENT 'the batch of the query that took it in'{columns}
) USING DELTA
PARTITIONED BY (side)
COMMENT 'rows that later rows can meet'
TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'event_us,batch')
