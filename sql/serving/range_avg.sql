-- Average of a measure over [range_start, range_end), with the interval that must hold it.
--
-- Purpose:    value is the spread sum by spread count; null where no row can be inside.
-- Parameters: stream_name, measure_name, range_start, range_end; optional keys := {device: 'a'}, by := ['device'];
--             see range_asked
-- Usage:      FROM range_avg('telemetry', 'temp', '2020-07-13T06:00', '2020-07-13T09:30', by := ['device']);
--
-- Answer: key, key_text, value, low, high, exact, rows (about so many), rows_low, rows_high, nodes_read, finest_granularity_us,
-- as_of_version, grouping, final (no row later than the stream's `latest` can still change it).

CREATE MACRO range_avg(stream_name, measure_name, range_start, range_end, keys := MAP {}, "by" := []) AS TABLE
    WITH sums AS (
        SELECT
            *,
            rounding / greatest(rows_low, 1) AS slack,
            certain_sum + open_spread AS sum_spread
        FROM range_totals(stream_name, measure_name, range_start, range_end, keys := keys, "by" := "by")
    ), climbs AS (
        SELECT
            *,
            CASE WHEN rows_low < rows_high THEN
                -largest_ratio(-certain_sum, certain_n, negated(open_lowers), -max_high, -min_low, rounding)
            ELSE certain_sum / certain_n END AS ratio_low,
            CASE WHEN rows_low < rows_high THEN
                largest_ratio(certain_sum, certain_n, open_uppers, min_low, max_high, rounding)
            ELSE certain_sum / certain_n END AS ratio_high
        FROM sums
    ), ends AS (
        SELECT
            *,
            CASE WHEN is_exact THEN greatest(ratio_low - slack, min_low)
                ELSE greatest(ratio_low, min_low) - slack END AS avg_low,
            CASE WHEN is_exact THEN least(ratio_high + slack, max_high)
                ELSE least(ratio_high, max_high) + slack END AS avg_high
        FROM climbs
    )
    SELECT
        key, key_text,
        CASE WHEN rows_high > 0 THEN clamped(sum_spread / rows_spread, avg_low, avg_high) / divisor END AS value,
        CASE WHEN NOT is_forgotten AND rows_high > 0 THEN avg_low / divisor END AS low,
        CASE WHEN NOT is_forgotten AND rows_high > 0 THEN avg_high / divisor END AS high,
        NOT is_forgotten AND (rows_high = 0 OR ratio_low = ratio_high) AS exact,
        CAST(round(rows_spread) AS BIGINT) AS rows, rows_low, rows_high,
        nodes_read, finest_granularity_us, as_of_version, grouping, final
    FROM ends
    ORDER BY key_text;
