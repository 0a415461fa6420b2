-- Largest value of a measure over [range_start, range_end).
--
-- Purpose:    value is the largest of the nodes inside by half or more; low is null where the range may be empty.
-- Parameters: stream_name, measure_name, range_start, range_end, edges, keys, by: see range_nodes
-- Usage:      FROM range_max('telemetry', 'temp', '2020-07-13T06:00', '2020-07-13T09:30', keys := {device: 'a'});

-- [folds]
max(highest) FILTER (at_most > 0) AS extreme,
max(CASE WHEN at_least = n THEN highest ELSE lowest END) FILTER (at_least > 0) AS certain,
max(highest) FILTER (at_most > 0 AND share >= 0.5) AS likely,
min(lowest) FILTER (at_most > 0) AS opposite
-- [units]
CASE WHEN is_exact AND extreme = certain AND abs(extreme) < {whole_doubles} THEN CAST(extreme AS HUGEINT) END
-- [value]
needs_values(has_values, coalesce(greatest(likely, certain), extreme) / divisor)
-- [low]
least_of(certain, is_exact, divisor)
-- [high]
CASE WHEN NOT is_forgotten THEN -least_of(-extreme, is_exact, divisor) END
-- [exact]
extreme IS NOT DISTINCT FROM certain
-- [beside]
opposite / divisor AS least_end, NULL AS most_end
-- [sure_low]
-- A row beyond the side is not in doubt; else the extreme is one of the other rows, if there is any.
CASE WHEN doubt.greatest < low THEN low WHEN rows_low > doubt.n THEN least_end END
-- [sure_high]
high
-- [least_side]
CASE WHEN rows_high = 0 THEN absent.least ELSE low END
-- [most_side]
CASE WHEN rows_high = 0 THEN absent.greatest WHEN high IS NOT NULL THEN greatest(high, absent.greatest) END
