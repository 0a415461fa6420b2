-- needed_slack/<query>: one row is how many pairs or results that a repair found would have needed one slack, at one time in one bucket.
CREATE TABLE IF NOT EXISTS delta.`{path}` (
    repair BIGINT COMMENT 'the repair that found them',
    bucket INT COMMENT 'the bucket in which they were missed',
    from_us BIGINT COMMENT 'start of the quarter of a period, in stream time, in which the later rows came',
    side INT COMMENT 'side of the earlier rows, 0 left, 1 right; of three streams or more, of the row that came last',
    slack_us BIGINT COMMENT 'the least slack of that side, or for that stream, with which they would have been found online',
    pairs BIGINT COMMENT 'how many pairs'
) USING DELTA
COMMENT 'what the policy that chooses slack is told of missed pairs'
TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'repair,from_us')
