-- How many values of a measure lie in [range_start, range_end); measure '*' counts rows.
--
-- Purpose:    value is the certain count and each cut node's share of its rows.
-- Parameters: stream_name, measure_name, range_start, range_end, edges, keys, by: see range_nodes
-- Usage:      FROM range_count('telemetry', '*', '2020-07-13T06:00', '2020-07-13T09:30', keys := {device: 'a'});
--
-- Answer: key, value, low, high, exact, rows (about so many), rows_low, rows_high, nodes_read, finest_granularity_us,
-- as_of_version, grouping, final (rows later than the stream's `latest` apart, no row can still change it).

CREATE MACRO bucket_count(stream_name, measure_name, edges, keys := MAP {}, "by" := []) AS TABLE
    WITH grouped AS (
        SELECT
            bucket, any_value(a_us) AS a_us, any_value(b_us) AS b_us, key_json,
            any_value(grouping_text) AS grouping_text, any_value(version) AS version, any_value(divisor) AS divisor,
            any_value(has_values) AS has_values, any_value(is_forgotten) AS is_forgotten, any_value(is_final) AS is_final,
            count(width_us) AS nodes_read, min(width_us) AS finest_granularity_us,
            CAST(sum(at_least) AS BIGINT) AS rows_low, CAST(sum(at_most) AS BIGINT) AS rows_high,
            sum(least(greatest(n * share, at_least), at_most)) AS rows_spread
        FROM bucket_nodes(stream_name, measure_name, edges, keys := keys, "by" := "by")
        GROUP BY bucket, key_json
    )
    SELECT
        CAST(CAST(key_json AS JSON) AS MAP(VARCHAR, VARCHAR)) AS key,
        rows_spread AS value,
        CAST(rows_low AS DOUBLE) AS low,
        CASE WHEN NOT is_forgotten THEN CAST(rows_high AS DOUBLE) END AS high,
        rows_low = rows_high AND NOT is_forgotten AS exact,
        CAST(round(rows_spread) AS BIGINT) AS rows, rows_low, rows_high, nodes_read, finest_granularity_us,
        version AS as_of_version, CAST(grouping_text AS VARCHAR[]) AS grouping, is_final AS final,
        bucket, a_us AS from_us, b_us AS to_us
    FROM grouped
    WHERE rows_high > 0 OR key_json = '{}';

CREATE MACRO range_count(stream_name, measure_name, range_start, range_end, keys := MAP {}, "by" := []) AS TABLE
    SELECT * EXCLUDE (bucket, from_us, to_us)
    FROM bucket_count(stream_name, measure_name,
        [moment_us(CAST(range_start AS VARCHAR)), moment_us(CAST(range_end AS VARCHAR))], keys := keys, "by" := "by");
