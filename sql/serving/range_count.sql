-- How many values of a measure lie in [range_start, range_end); measure '*' counts rows.
--
-- Purpose:    value is the certain count and each cut node's share of its rows.
-- Parameters: stream_name, measure_name, range_start, range_end, keys, by: see range_nodes
-- Usage:      FROM range_count('telemetry', '*', '2020-07-13T06:00', '2020-07-13T09:30', keys := {device: 'a'});
--
-- Answer: key, value, low, high, exact, rows (about so many), rows_low, rows_high, nodes_read, finest_granularity_us,
-- as_of_version, grouping, final (rows later than the stream's `latest` apart, no row can still change it).

CREATE MACRO range_count(stream_name, measure_name, range_start, range_end, keys := MAP {}, "by" := []) AS TABLE
    WITH grouped AS (
        SELECT
            by_values, any_value(facts) AS facts,
            count(width_us) AS nodes_read, min(width_us) AS finest_granularity_us,
            CAST(sum(at_least) AS BIGINT) AS rows_low, CAST(sum(at_most) AS BIGINT) AS rows_high,
            sum(least(greatest(n * share, at_least), at_most)) AS rows_spread
        FROM range_nodes(stream_name, measure_name, range_start, range_end, keys := keys, "by" := "by")
        GROUP BY by_values
    )
    SELECT
        MAP(facts.by_names, by_values) AS key,
        rows_spread AS value,
        CAST(rows_low AS DOUBLE) AS low,
        CASE WHEN NOT facts.is_forgotten THEN CAST(rows_high AS DOUBLE) END AS high,
        rows_low = rows_high AND NOT facts.is_forgotten AS exact,
        CAST(round(rows_spread) AS BIGINT) AS rows, rows_low, rows_high, nodes_read, finest_granularity_us,
        facts.version AS as_of_version, facts.grouping AS grouping, facts.is_final AS final
    FROM grouped
    WHERE rows_high > 0 OR len(facts.by_names) = 0;
