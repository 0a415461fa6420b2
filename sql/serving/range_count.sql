-- How many values of a measure lie in [range_start, range_end); measure '*' counts rows.
--
-- Purpose:    value is the certain count, plus each cut node's share of its rows.
-- Parameters: stream_name, measure_name, range_start, range_end; optional keys := {device: 'a'}, by := ['device'];
--             see range_asked
-- Usage:      FROM range_count('telemetry', '*', '2020-07-13T06:00', '2020-07-13T09:30', by := ['device']);
--
-- Answer: key, key_text, value, low, high, exact, rows (about so many), rows_low, rows_high, nodes_read, finest_granularity_us,
-- as_of_version, grouping, final (no row later than the stream's `latest` can still change it).

CREATE MACRO range_count(stream_name, measure_name, range_start, range_end, keys := MAP {}, "by" := []) AS TABLE
    SELECT
        key, key_text,
        CAST(rows_spread AS DOUBLE) AS value,
        CAST(rows_low AS DOUBLE) AS low,
        CASE WHEN NOT is_forgotten THEN CAST(rows_high AS DOUBLE) END AS high,
        NOT is_forgotten AND rows_low = rows_high AS exact,
        CAST(round(rows_spread) AS BIGINT) AS rows, rows_low, rows_high,
        nodes_read, finest_granularity_us, as_of_version, grouping, final
    FROM range_totals(stream_name, measure_name, range_start, range_end, keys := keys, "by" := "by")
    ORDER BY key_text;
