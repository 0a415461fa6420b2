-- pairs/<query>: one row is one pair of a window join, found online or by repair, each pair once.
-- The query's own columns stand at the end.
CREATE TABLE IF NOT EXISTS delta.`{path}` (
    event_us BIGINT COMMENT 'event time of the newer row, whose period the pair belongs to',
    left_us BIGINT COMMENT 'event time of the left row',
    right_us BIGINT COMMENT 'event time of the right row',
    left_row BIGINT COMMENT 'the left row: hash of its file, line and item',
    right_row BIGINT COMMENT 'the right row, alike',
    found STRING COMMENT 'online: the moment the later row was taken in; repair: afterwards',
    wait_us BIGINT COMMENT 'stream time from the arrival of the later row until the pair was found',
    batch BIGINT COMMENT 'the batch of the query that found it, or the number of the repair'
    {columns}
) USING DELTA
COMMENT 'pairs of a window join'
TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'event_us,batch')
