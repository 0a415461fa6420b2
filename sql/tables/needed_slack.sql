-- needed_slack/<query>: one row is how many pairs, results or answers that a repair found would have needed one slack, at one time in one bucket; an answer that needed another before counts -1 there.
CREATE TABLE IF NOT EXISTS delta.`{path}` (
    repair BIGINT COMMENT 'the repair that found them',
    bucket INT COMMENT 'the bucket in which they were missed',
    from_us BIGINT COMMENT 'start of the quarter of a period, in stream time, in which the later rows came',
    side INT COMMENT 'side of the earlier rows, 0 left, 1 right; of three streams or more, of the row that came last; 0 of an aggregate',
    slack_us BIGINT COMMENT 'the least slack of that side, for that stream, or of ticks, with which they would have been found online',
    pairs BIGINT COMMENT 'how many pairs; of answers that have moved to another slack, -1 each'
) USING DELTA
COMMENT 'what the policy that chooses slack is told of missed pairs'
TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'repair,from_us')
