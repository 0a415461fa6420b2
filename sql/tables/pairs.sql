-- pairs/<query>: one row is one pair of a window join, found online or by repair, each pair once.
-- The query's own columns stand at the end.
CREATE TABLE IF NOT EXISTS delta.`{path}` (
    event_us BIGINT COMMENT 'event time of the newer row, whose period the pair belongs to',
    left_us BIGINT COMMENT 'event time of the left row',
    right_us BIGINT COMMENT 'event time of the right row',
    left_row BIGINT COMMENT 'the left row: hash of its file, line and item',
    right_row BIGINT COMMENT 'the right row, alike',
    left_file STRING COMMENT 'the left row: its file',
    left_line BIGINT COMMENT 'the left row: its line',
    left_item INT COMMENT 'the left row: its place in the line',
    right_file STRING COMMENT 'the right row: its file',
    right_line BIGINT COMMENT 'the right row: its line',
    right_item INT COMMENT 'the right row: its place in the line',
    found STRING COMMENT 'online: the moment the later row was taken in; repair: afterwards',
    wait_us BIGINT COMMENT 'stream time from the arrival of the later row until the pair was found',
    batch BIGINT COMMENT 'the batch of the query that found it, or the number of the repair'
    {columns}
) USING DELTA
COMMENT 'pairs of a window join'
TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'event_us,batch')
