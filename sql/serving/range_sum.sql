-- Sum of a measure over [range_start, range_end), with the interval that must hold it.
--
-- Purpose:    value is the certain sum and each cut node's share of its sum; low and high add the extremes.
--
-- Adding N doubles in any order errs by at most eps/2 * N * sum|x|, and so does any other way to add them: eps * N *
-- magnitude holds both. Whole numbers below 2^53 are exact, so exact measures need it only above.
-- Parameters: stream_name, measure_name, range_start, range_end, edges, keys, by: see range_nodes
-- Usage:      FROM range_sum('telemetry', 'temp', '2020-07-13T06:00', '2020-07-13T09:30', keys := {device: 'a'});
--
-- Answer: key, value, low, high, exact, rows (about so many), rows_low, rows_high, nodes_read, finest_granularity_us,
-- as_of_version, grouping, final (rows later than the stream's `latest` apart, no row can still change it).

CREATE MACRO sum_of(asked, reads) AS TABLE
    WITH grouped AS (
        SELECT
            bucket, key_json,
            count(*) AS nodes_read, min(width_us) AS finest_granularity_us,
            CAST(sum(at_least) AS BIGINT) AS rows_low, CAST(sum(at_most) AS BIGINT) AS rows_high,
            sum(least(greatest(n * share, at_least), at_most)) AS rows_spread,
            CASE WHEN any_value(is_exact) THEN CAST(
                ifnull(sum(CASE WHEN at_least = n THEN exact_total END), 0)
                + ifnull(sum(CASE WHEN at_least = n THEN wide_total END), 0)
            AS DOUBLE) ELSE ifnull(fsum(CASE WHEN at_least = n THEN total END), 0) END AS certain,
            -- A FILTER would copy all columns for each aggregate.
            bool_or(is_open) AS is_open,
            sum(CASE WHEN is_open THEN part_low ELSE 0 END) AS open_low,
            sum(CASE WHEN is_open THEN part_high ELSE 0 END) AS open_high,
            sum(CASE WHEN is_open THEN least(greatest(total * share, part_low), part_high) ELSE 0 END) AS open_sum,
            sum(magnitude) AS magnitude,
            2.220446049250313e-16 * (sum(n) + 8) AS unit
        FROM parts_inside(reads)
        GROUP BY bucket, key_json
    ), ended AS (
        SELECT
            *,
            CASE WHEN is_exact AND (NOT is_open OR magnitude < 9007199254740992) THEN 0
                ELSE unit * magnitude END AS rounding
        FROM query_table(asked) AS asked LEFT JOIN grouped USING (bucket)
        WHERE level = 1 AND (rows_high > 0 OR NOT is_by_key)
    )
    SELECT
        CAST(CAST(ifnull(key_json, '{}') AS JSON) AS MAP(VARCHAR, VARCHAR)) AS key,
        needs_values(has_values, ifnull((certain + open_sum) / divisor, 0)) AS value,
        CASE WHEN NOT is_forgotten THEN ifnull((certain + open_low - rounding) / divisor, 0) END AS low,
        CASE WHEN NOT is_forgotten THEN ifnull((certain + open_high + rounding) / divisor, 0) END AS high,
        ifnull(open_low = open_high, true) AND NOT is_forgotten AS exact,
        CAST(round(ifnull(rows_spread, 0)) AS BIGINT) AS rows, ifnull(rows_low, 0) AS rows_low,
        ifnull(rows_high, 0) AS rows_high, ifnull(nodes_read, 0) AS nodes_read, finest_granularity_us,
        version AS as_of_version, CAST(grouping_text AS VARCHAR[]) AS grouping, is_final AS final,
        bucket, a_us AS from_us, b_us AS to_us
    FROM ended;

CREATE MACRO bucket_sum(stream_name, measure_name, edges, keys := MAP {}, "by" := []) AS TABLE
    WITH asked AS MATERIALIZED (FROM bucket_asked(stream_name, measure_name, edges, keys, "by")),
    reads AS (FROM reads_of('asked'))
    FROM sum_of('asked', 'reads');

CREATE MACRO range_sum(stream_name, measure_name, range_start, range_end, keys := MAP {}, "by" := []) AS TABLE
    SELECT * EXCLUDE (bucket, from_us, to_us)
    FROM bucket_sum(stream_name, measure_name,
        [moment_us(CAST(range_start AS VARCHAR)), moment_us(CAST(range_end AS VARCHAR))], keys := keys, "by" := "by");
