-- Largest value of a measure over [range_start, range_end).
--
-- Purpose:    value is the largest of the nodes that lie inside by half or more; a null end means that the range may hold no value.
-- Parameters: stream_name, measure_name, range_start, range_end; optional keys := {device: 'a'}, by := ['device'];
--             see range_asked
-- Usage:      FROM range_max('telemetry', 'temp', '2020-07-13T06:00', '2020-07-13T09:30', by := ['device']);
--
-- Answer: key, key_text, value, low, high, exact, rows (about so many), rows_low, rows_high, nodes_read, finest_granularity_us,
-- as_of_version, grouping, final (no row later than the stream's `latest` can still change it).

CREATE MACRO range_max(stream_name, measure_name, range_start, range_end, keys := MAP {}, "by" := []) AS TABLE
    SELECT
        key, key_text,
        clamped(coalesce(max_likely, max_low, max_high), coalesce(max_low, max_likely, max_high), max_high) / divisor AS value,
        max_low / divisor AS low,
        CASE WHEN NOT is_forgotten THEN max_high / divisor END AS high,
        NOT is_forgotten AND max_low IS NOT DISTINCT FROM max_high AS exact,
        CAST(round(rows_spread) AS BIGINT) AS rows, rows_low, rows_high,
        nodes_read, finest_granularity_us, as_of_version, grouping, final
    FROM range_totals(stream_name, measure_name, range_start, range_end, keys := keys, "by" := "by")
    ORDER BY key_text;
