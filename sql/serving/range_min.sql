-- Smallest value of a measure over [range_start, range_end).
--
-- Purpose:    value is the smallest of the nodes inside by half or more; high is null where the range may be empty.
-- Parameters: stream_name, measure_name, range_start, range_end, edges, keys, by: see range_nodes
-- Usage:      FROM range_min('telemetry', 'temp', '2020-07-13T06:00', '2020-07-13T09:30', keys := {device: 'a'});

-- [folds]
min(lowest) FILTER (at_most > 0) AS extreme,
min(CASE WHEN at_least = n THEN lowest ELSE highest END) FILTER (at_least > 0) AS certain,
min(lowest) FILTER (at_most > 0 AND share >= 0.5) AS likely,
max(highest) FILTER (at_most > 0) AS opposite
-- [units]
CASE WHEN is_exact AND extreme = certain AND abs(extreme) < {whole_doubles} THEN CAST(extreme AS HUGEINT) END
-- [value]
needs_values(has_values, coalesce(least(likely, certain), extreme) / divisor)
-- [low]
CASE WHEN NOT is_forgotten THEN least_of(extreme, is_exact, divisor) END
-- [high]
-least_of(-certain, is_exact, divisor)
-- [exact]
extreme IS NOT DISTINCT FROM certain
-- [beside]
NULL AS least_end, opposite / divisor AS most_end
-- [sure_low]
low
-- [sure_high]
-- A row beyond the side is not in doubt; else the extreme is one of the other rows, if there is any.
CASE WHEN doubt.least > high THEN high WHEN rows_low > doubt.n THEN most_end END
-- [least_side]
CASE WHEN rows_high = 0 THEN absent.least WHEN low IS NOT NULL THEN least(low, absent.least) END
-- [most_side]
CASE WHEN rows_high = 0 THEN absent.greatest ELSE high END
