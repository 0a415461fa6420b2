-- revised/<stream>: one row is one accepted row that a newer one of its identity has revised, as raw had it.
CREATE TABLE IF NOT EXISTS delta.`{path}` (
    event_us BIGINT COMMENT 'when it happened: microseconds since the epoch, UTC',
    arrival_us BIGINT COMMENT 'when it was received, microseconds since the epoch, UTC; null where the source does not tell',
    {columns}
    source_file STRING COMMENT 'the file it came in, as raw names it',
    source_line BIGINT COMMENT 'the line in that file, from 1, or the offset',
    source_item INT COMMENT 'its place in the exploded list of that line, 0 where a line is one row',
    batch BIGINT COMMENT 'the ingest batch that accepted it',
    revised_in BIGINT COMMENT 'the ingest batch that revised it; not before its ledger row is there',
    by_file STRING COMMENT 'the file of the row that revises it',
    by_line BIGINT COMMENT 'the line of that row',
    by_item INT COMMENT 'the place of that row in the list of its line'
) USING DELTA
COMMENT 'older values of rows that were revised'
TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'event_us,batch,revised_in')
