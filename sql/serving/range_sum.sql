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

CREATE MACRO bucket_sum(stream_name, measure_name, edges, keys := MAP {}, "by" := []) AS TABLE
    WITH grouped AS (
        SELECT
            bucket, any_value(a_us) AS a_us, any_value(b_us) AS b_us, key_json,
            any_value(grouping_text) AS grouping_text, any_value(version) AS version, any_value(divisor) AS divisor,
            any_value(has_values) AS has_values, any_value(is_forgotten) AS is_forgotten, any_value(is_final) AS is_final,
            count(width_us) AS nodes_read, min(width_us) AS finest_granularity_us,
            CAST(sum(at_least) AS BIGINT) AS rows_low, CAST(sum(at_most) AS BIGINT) AS rows_high,
            sum(least(greatest(n * share, at_least), at_most)) AS rows_spread,
            any_value(is_exact) AS is_exact,
            CASE WHEN any_value(is_exact) THEN CAST(
                ifnull(sum(exact_total) FILTER (at_least = n), 0) + ifnull(sum(wide_total) FILTER (at_least = n), 0)
            AS DOUBLE) ELSE ifnull(fsum(total) FILTER (at_least = n), 0) END AS certain,
            count(*) FILTER (is_open) AS open_n,
            ifnull(sum(part_low) FILTER (is_open), 0) AS open_low,
            ifnull(sum(part_high) FILTER (is_open), 0) AS open_high,
            ifnull(sum(least(greatest(total * share, part_low), part_high)) FILTER (is_open), 0) AS open_sum,
            sum(magnitude) AS magnitude,
            2.220446049250313e-16 * (sum(n) + 8) AS unit
        FROM bucket_parts(stream_name, measure_name, edges, keys := keys, "by" := "by")
        GROUP BY bucket, key_json
    ), ended AS (
        SELECT
            *,
            CASE WHEN is_exact AND (open_n = 0 OR magnitude < 9007199254740992) THEN 0
                ELSE unit * magnitude END AS rounding
        FROM grouped
    )
    SELECT
        CAST(CAST(key_json AS JSON) AS MAP(VARCHAR, VARCHAR)) AS key,
        needs_values(has_values, (certain + open_sum) / divisor) AS value,
        CASE WHEN NOT is_forgotten THEN (certain + open_low - rounding) / divisor END AS low,
        CASE WHEN NOT is_forgotten THEN (certain + open_high + rounding) / divisor END AS high,
        open_low = open_high AND NOT is_forgotten AS exact,
        CAST(round(rows_spread) AS BIGINT) AS rows, rows_low, rows_high, nodes_read, finest_granularity_us,
        version AS as_of_version, CAST(grouping_text AS VARCHAR[]) AS grouping, is_final AS final,
        bucket, a_us AS from_us, b_us AS to_us
    FROM ended
    WHERE rows_high > 0 OR key_json = '{}';

CREATE MACRO range_sum(stream_name, measure_name, range_start, range_end, keys := MAP {}, "by" := []) AS TABLE
    SELECT * EXCLUDE (bucket, from_us, to_us)
    FROM bucket_sum(stream_name, measure_name,
        [moment_us(CAST(range_start AS VARCHAR)), moment_us(CAST(range_end AS VARCHAR))], keys := keys, "by" := "by");
