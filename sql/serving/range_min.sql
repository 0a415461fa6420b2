-- Smallest value of a measure over [range_start, range_end).
--
-- Purpose:    value is the smallest of the nodes that lie inside by half or more; a null end means that the range may hold no value.
-- Parameters: stream_name, measure_name, range_start, range_end; optional keys := {device: 'a'}, by := ['device'];
--             see range_asked
-- Usage:      FROM range_min('telemetry', 'temp', '2020-07-13T06:00', '2020-07-13T09:30', by := ['device']);
--
-- Answer: key, key_text, value, low, high, exact, rows (about so many), rows_low, rows_high, nodes_read, finest_granularity_us,
-- as_of_version, grouping, final (no row later than the stream's `latest` can still change it).

CREATE MACRO range_min(stream_name, measure_name, range_start, range_end, keys := MAP {}, "by" := []) AS TABLE
    SELECT
        key, key_text,
        clamped(coalesce(min_likely, min_high, min_low), min_low, coalesce(min_high, min_likely, min_low)) / divisor AS value,
        CASE WHEN NOT is_forgotten THEN min_low / divisor END AS low,
        min_high / divisor AS high,
        NOT is_forgotten AND min_low IS NOT DISTINCT FROM min_high AS exact,
        CAST(round(rows_spread) AS BIGINT) AS rows, rows_low, rows_high,
        nodes_read, finest_granularity_us, as_of_version, grouping, final
    FROM range_totals(stream_name, measure_name, range_start, range_end, keys := keys, "by" := "by")
    ORDER BY key_text;
