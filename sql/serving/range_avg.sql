-- Average of a measure over [range_start, range_end), with the interval that must hold it.
--
-- Purpose:    value is the spread sum by the spread count; null where no row can be inside.
--
-- The sides hold if there is any row at all (rows_low = 0: there may be none). They are the extremes of
-- (certain sum + sum s) / (certain n + sum k) over the k of each cut node, see ratios.sql. Where all rows are inside
-- and their sum is exact, the quotient is rounded once, see exact_values.sql.
-- Parameters: stream_name, measure_name, range_start, range_end, edges, keys, by: see range_nodes
-- Usage:      FROM range_avg('telemetry', 'temp', '2020-07-13T06:00', '2020-07-13T09:30', keys := {device: 'a'});

-- [nodes]
parts_inside
-- [folds]
ifnull(sum(exact_total) FILTER (at_least = n), 0) + ifnull(sum(wide_total) FILTER (at_least = n), 0) AS whole,
ifnull(fsum(total) FILTER (at_least = n), 0) AS added,
ifnull(sum(n) FILTER (at_least = n), 0) AS certain_n,
bool_or(is_open) AS is_open,
ifnull(bool_and(at_least = at_most AND part_low = part_high) FILTER (is_open), true) AS is_point,
ifnull(fsum(least(greatest(total * share, part_low), part_high)) FILTER (is_open), 0) AS open_sum,
list(cut_sums(n, total, lowest, highest, at_least, at_most)) FILTER (is_open) AS cuts,
min(lowest) FILTER (at_most > 0) AS bottom,
max(highest) FILTER (at_most > 0) AS top,
sum(magnitude) AS magnitude
-- [steps]
settled AS (
    SELECT
        *,
        CASE WHEN is_exact THEN CAST(whole AS DOUBLE) ELSE added END AS certain,
        {sum_rounding} * magnitude AS rounding,
        ifnull(is_point AND (NOT is_open OR NOT is_exact OR magnitude < {whole_doubles}), true) AS is_settled
    FROM joined
), climbed AS (
    SELECT
        *,
        rounding / greatest(rows_low, 1) / divisor AS slack,
        least_of(bottom, is_exact, divisor) AS least_avg,
        -least_of(-top, is_exact, divisor) AS most_avg,
        CASE
            WHEN is_settled THEN [(certain + open_sum) / nullif(rows_low, 0)]
            ELSE largest_ratios([
                {s0: certain, nodes: uppers(cuts), bottom: bottom, ceiling: top},
                {s0: -certain, nodes: mirrored(cuts), bottom: -top, ceiling: -bottom}
            ], certain_n, rounding)
        END AS ratios
    FROM settled
), ended AS (
    SELECT
        *,
        CASE WHEN is_exact THEN greatest(ratio_low - slack, least_avg) ELSE greatest(ratio_low, least_avg) - slack END AS avg_low,
        CASE WHEN is_exact THEN least(ratio_high + slack, most_avg) ELSE least(ratio_high, most_avg) + slack END AS avg_high
    FROM (
        SELECT *, ratios[1] / divisor AS ratio_high, CASE WHEN is_settled THEN ratios[1] ELSE -ratios[2] END / divisor AS ratio_low
        FROM climbed
    )
)
-- [units]
CASE WHEN is_exact AND is_settled AND rows_low > 0 THEN whole + CAST(open_sum AS HUGEINT) END
-- [terms]
rows_low
-- [text]
NULL::VARCHAR
-- [value]
needs_values(has_values, least(greatest((certain + open_sum) / nullif(rows_spread * divisor, 0), avg_low), avg_high))
-- [low]
CASE WHEN NOT is_forgotten THEN avg_low END
-- [high]
CASE WHEN NOT is_forgotten THEN avg_high END
-- [exact]
is_settled
-- [beside]
least_avg AS least_end, most_avg AS most_end
-- [sure_low]
-- The most that it falls is when all n rows in doubt are the greatest of them.
CASE
    WHEN doubt.greatest <= low THEN low
    WHEN rows_low > doubt.n THEN greatest(
        side_less(low, doubt.n * (doubt.greatest - low) / (rows_low - doubt.n)), least_end - {sum_rounding} * abs(least_end)
    )
    WHEN low IS NOT NULL THEN least_end - {sum_rounding} * abs(least_end)
END
-- [sure_high]
CASE
    WHEN doubt.least >= high THEN high
    WHEN rows_low > doubt.n THEN least(
        -side_less(-high, doubt.n * (high - doubt.least) / (rows_low - doubt.n)), most_end + {sum_rounding} * abs(most_end)
    )
    WHEN high IS NOT NULL THEN most_end + {sum_rounding} * abs(most_end)
END
-- [least_side]
-- The most that it falls is when all n rows are inside, and the least of them; the more others, the less it falls.
CASE
    WHEN rows_high = 0 THEN absent.least
    WHEN absent.least >= low THEN low
    ELSE side_less(low, absent.n * (low - absent.least) / (rows_low + absent.n))
END
-- [most_side]
CASE
    WHEN rows_high = 0 THEN absent.greatest
    WHEN absent.greatest <= high THEN high
    ELSE -side_less(-high, absent.n * (absent.greatest - high) / (rows_low + absent.n))
END
