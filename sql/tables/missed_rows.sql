-- missed_rows/<query>: one row is a row that may have missed partners when it was taken in, or one whose clock was not believed.
CREATE TABLE IF NOT EXISTS delta.`{path}` (
    what STRING COMMENT 'missed: the repair looks for what it should have met; refused: its clock is ahead, it joins nothing',
    bucket INT COMMENT 'the bucket it was used in',
    side INT COMMENT 'the side of the join: 0 left, 1 right, ...',
    row BIGINT COMMENT 'the row: hash of its file, line and item',
    source_file STRING COMMENT 'a join of two streams: the file of the row',
    source_line BIGINT COMMENT 'a join of two streams: its line',
    source_item INT COMMENT 'a join of two streams: its place in the line',
    event_us BIGINT COMMENT 'its event time',
    horizon_us BIGINT COMMENT 'a join: partners up to this time may have been gone; an aggregate: it counts from this tick on',
    time_us BIGINT COMMENT 'stream time just before it',
    edge_us BIGINT COMMENT 'a join: partners up to this time needed slack; null: time_us less the window',
    batch BIGINT COMMENT 'the batch of the query that took it in'
) USING DELTA
COMMENT 'what a repair has to look at'
TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'batch,event_us')
