-- How many values of a measure lie in [range_start, range_end); measure '*' counts rows.
--
-- Purpose:    value is the certain count and each cut node's share of its rows.
-- Parameters: stream_name, measure_name, range_start, range_end, edges, keys, by: see range_nodes
-- Usage:      FROM range_count('telemetry', '*', '2020-07-13T06:00', '2020-07-13T09:30', keys := {device: 'a'});

-- [units]
CASE WHEN rows_low = rows_high THEN CAST(rows_low AS HUGEINT) END
-- [digits]
0
-- [value]
ifnull(rows_spread, 0)
-- [low]
CAST(ifnull(rows_low, 0) AS DOUBLE)
-- [high]
CASE WHEN NOT is_forgotten THEN CAST(ifnull(rows_high, 0) AS DOUBLE) END
-- [exact]
ifnull(rows_low = rows_high, true)
-- [sure_low]
greatest(low - doubt.n, 0)
-- [sure_high]
high
-- [least_side]
low
-- [most_side]
high + absent.n
