-- Smallest value of a measure over [range_start, range_end).
--
-- Purpose:    value is the smallest of the nodes inside by half or more; high is null where the range may be empty.
-- Parameters: stream_name, measure_name, range_start, range_end, edges, keys, by: see range_nodes
-- Usage:      FROM range_min('telemetry', 'temp', '2020-07-13T06:00', '2020-07-13T09:30', keys := {device: 'a'});
--
-- Answer: key, value, low, high, exact, rows (about so many), rows_low, rows_high, nodes_read, finest_granularity_us,
-- as_of_version, grouping, final (rows later than the stream's `latest` apart, no row can still change it).

CREATE MACRO min_of(asked, reads) AS TABLE
    WITH grouped AS (
        SELECT
            bucket, key_json,
            count(*) AS nodes_read, min(width_us) AS finest_granularity_us,
            CAST(sum(at_least) AS BIGINT) AS rows_low, CAST(sum(at_most) AS BIGINT) AS rows_high,
            sum(least(greatest(n * share, at_least), at_most)) AS rows_spread,
            min(lowest) FILTER (at_most > 0) AS extreme,
            min(CASE WHEN at_least = n THEN lowest ELSE highest END) FILTER (at_least > 0) AS certain,
            min(lowest) FILTER (at_most > 0 AND share >= 0.5) AS likely
        FROM nodes_inside(reads)
        GROUP BY bucket, key_json
    )
    SELECT
        CAST(CAST(ifnull(key_json, '{}') AS JSON) AS MAP(VARCHAR, VARCHAR)) AS key,
        needs_values(has_values, coalesce(least(likely, certain), extreme) / divisor) AS value,
        CASE WHEN NOT is_forgotten THEN extreme / divisor END AS low,
        certain / divisor AS high,
        extreme IS NOT DISTINCT FROM certain AND NOT is_forgotten AS exact,
        CAST(round(ifnull(rows_spread, 0)) AS BIGINT) AS rows, ifnull(grouped.rows_low, 0) AS rows_low,
        ifnull(grouped.rows_high, 0) AS rows_high, ifnull(nodes_read, 0) AS nodes_read, finest_granularity_us,
        version AS as_of_version, CAST(grouping_text AS VARCHAR[]) AS grouping, is_final AS final,
        bucket, a_us AS from_us, b_us AS to_us
    FROM query_table(asked) AS asked LEFT JOIN grouped USING (bucket)
    WHERE level = 1 AND (grouped.rows_high > 0 OR NOT is_by_key);

CREATE MACRO bucket_min(stream_name, measure_name, edges, keys := MAP {}, "by" := []) AS TABLE
    WITH asked AS MATERIALIZED (FROM bucket_asked(stream_name, measure_name, edges, keys, "by")),
    reads AS (FROM reads_of('asked'))
    FROM min_of('asked', 'reads');

CREATE MACRO range_min(stream_name, measure_name, range_start, range_end, keys := MAP {}, "by" := []) AS TABLE
    SELECT * EXCLUDE (bucket, from_us, to_us)
    FROM bucket_min(stream_name, measure_name,
        [moment_us(CAST(range_start AS VARCHAR)), moment_us(CAST(range_end AS VARCHAR))], keys := keys, "by" := "by");
