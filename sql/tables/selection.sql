-- selection/<query>: one row is one row of the stream that the selection let through, each once.
-- The query's own columns stand at the end.
CREATE TABLE IF NOT EXISTS delta.`{path}` (
    event_us BIGINT COMMENT 'event time of the row',
    row_id BIGINT COMMENT 'the row: hash of its file, line and item',
    source_file STRING COMMENT 'its file',
    source_line BIGINT COMMENT 'its line',
    source_item INT COMMENT 'its place in the line',
    batch BIGINT COMMENT 'the batch of the query that selected it'
    {columns}
) USING DELTA
COMMENT 'rows of one stream that a selection let through'
TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'event_us,batch')
