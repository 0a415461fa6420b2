-- Sum of a measure over [range_start, range_end), with the interval that must hold it.
--
-- Purpose:    value is the certain sum, plus each cut node's share of its sum; the ends add the extremes of every cut node.
-- Parameters: stream_name, measure_name, range_start, range_end; optional keys := {device: 'a'}, by := ['device'];
--             see range_asked
-- Usage:      FROM range_sum('telemetry', 'temp', '2020-07-13T06:00', '2020-07-13T09:30', by := ['device']);
--
-- Answer: key, key_text, value, low, high, exact, rows (about so many), rows_low, rows_high, nodes_read, finest_granularity_us,
-- as_of_version, grouping, final (no row later than the stream's `latest` can still change it).

CREATE MACRO range_sum(stream_name, measure_name, range_start, range_end, keys := MAP {}, "by" := []) AS TABLE
    WITH sums AS (
        SELECT
            *,
            certain_sum + open_low AS sum_low,
            certain_sum + open_high AS sum_high,
            certain_sum + open_spread AS sum_spread
        FROM range_totals(stream_name, measure_name, range_start, range_end, keys := keys, "by" := "by")
    )
    SELECT
        key, key_text,
        clamped(sum_spread, sum_low, sum_high) / divisor AS value,
        CASE WHEN NOT is_forgotten THEN (sum_low - rounding) / divisor END AS low,
        CASE WHEN NOT is_forgotten THEN (sum_high + rounding) / divisor END AS high,
        NOT is_forgotten AND sum_low = sum_high AS exact,
        CAST(round(rows_spread) AS BIGINT) AS rows, rows_low, rows_high,
        nodes_read, finest_granularity_us, as_of_version, grouping, final
    FROM sums
    ORDER BY key_text;
