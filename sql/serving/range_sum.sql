-- Sum of a measure over [range_start, range_end), with the interval that must hold it.
--
-- Purpose:    value is the certain sum and each cut node's share of its sum; low and high add the extremes. Nothing has no
--             sum: all three are null where no value can be inside, and the sides hold if there is any.
--
-- Each node's sum is its values' nearest double, and few are added here: what rounding can do does not grow with their
-- number, see rounding.py. Of exact measures whole nodes add up exactly; parts of cut nodes do where doubles hold them.
-- Parameters: stream_name, measure_name, range_start, range_end, edges, keys, by: see range_nodes
-- Usage:      FROM range_sum('telemetry', 'temp', '2020-07-13T06:00', '2020-07-13T09:30', keys := {device: 'a'});

-- [nodes]
parts_inside
-- [folds]
ifnull(sum(CASE WHEN at_least = n THEN exact_total END), 0)
    + ifnull(sum(CASE WHEN at_least = n THEN wide_total END), 0) AS whole,
ifnull(fsum(CASE WHEN at_least = n THEN total END), 0) AS added,
-- A FILTER would copy all columns for each aggregate.
bool_or(is_open) AS is_open,
fsum(CASE WHEN is_open THEN part_low ELSE 0 END) AS open_low,
fsum(CASE WHEN is_open THEN part_high ELSE 0 END) AS open_high,
fsum(CASE WHEN is_open THEN least(greatest(total * share, part_low), part_high) ELSE 0 END) AS open_sum,
-- A node whose rows all lie outside adds nothing, and so no rounding.
sum(CASE WHEN at_most > 0 THEN magnitude ELSE 0 END) AS magnitude
-- [steps]
ended AS (
    SELECT
        *,
        CASE WHEN is_exact THEN CAST(whole AS DOUBLE) ELSE added END AS certain,
        is_exact AND magnitude < whole_below(digits_of(divisor)) AS is_whole,
        CASE WHEN is_whole THEN 0 ELSE {sum_rounding} * magnitude END AS rounding
    FROM joined
)
-- [units]
CASE WHEN is_exact AND rows_high > 0 AND (NOT is_open OR is_whole AND open_low = open_high)
    THEN whole + CAST(open_low AS HUGEINT) END
-- [value]
needs_no_counter(is_counter, needs_values(has_values, CASE WHEN rows_high > 0 THEN (certain + open_sum) / divisor END))
-- [low]
CASE WHEN NOT is_forgotten AND rows_high > 0 THEN (certain + open_low - rounding) / divisor END
-- [high]
CASE WHEN NOT is_forgotten AND rows_high > 0 THEN (certain + open_high + rounding) / divisor END
-- [exact]
ifnull(open_low = open_high, true)
-- [sure_low]
side_less(low, doubt.above)
-- [sure_high]
-side_less(-high, -doubt.below)
-- [least_side]
side_less(CASE WHEN rows_high = 0 THEN 0 ELSE low END, -absent.below)
-- [most_side]
-side_less(CASE WHEN rows_high = 0 THEN 0 ELSE -high END, absent.above)
