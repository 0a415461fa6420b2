-- answers/<query>: one row is what a tick and group was answered by a batch or a repair; the newest revision counts.
CREATE TABLE IF NOT EXISTS delta.`{path}` (
    tick_us BIGINT COMMENT 'the tick'{columns},
    holds BOOLEAN COMMENT 'HAVING lets it through',
    revision INT COMMENT '0: the first answer; each later one counts more rows',
    results BIGINT COMMENT 'join results'{parts},
    found STRING COMMENT 'online: by a batch of the query; repair: by a repair',
    batch BIGINT COMMENT 'the batch of the query, or the number of the repair'
) USING DELTA
COMMENT 'answers at ticks, with what a later revision adds to; a tick and group without a row has no join result'
TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'tick_us,batch')
