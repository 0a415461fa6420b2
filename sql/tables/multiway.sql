-- multiway/<query>: one row is one result, found online or by repair, each once.
-- The query's own columns stand at the end.
CREATE TABLE IF NOT EXISTS delta.`{path}` (
    event_us BIGINT COMMENT 'event time of the newest row',
    times_us ARRAY<BIGINT> COMMENT 'event time of the row of each side, in the order of the query',
    row_ids ARRAY<BIGINT> COMMENT 'the row of each side: hash of its file, line and item',
    row_files ARRAY<STRING> COMMENT 'the row of each side: its file',
    row_lines ARRAY<BIGINT> COMMENT 'the row of each side: its line',
    row_items ARRAY<INT> COMMENT 'the row of each side: its place in the line',
    found STRING COMMENT 'online: by a batch of the query; repair: afterwards',
    batch BIGINT COMMENT 'the batch of the query that found it, or the number of the repair'
    {columns}
) USING DELTA
COMMENT 'results of a join of three streams or more'
TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'event_us,batch')
