-- Average of a measure over [range_start, range_end), with the interval that must hold it.
--
-- Purpose:    value is the spread sum by the spread count; null where no row can be inside.
--
-- The sides hold if there is any row at all (rows_low = 0: there may be none). They are the extremes of
-- (certain sum + sum s) / (certain n + sum k) over the k of each cut node, see ratios.sql.
-- Parameters: stream_name, measure_name, range_start, range_end, edges, keys, by: see range_nodes
-- Usage:      FROM range_avg('telemetry', 'temp', '2020-07-13T06:00', '2020-07-13T09:30', keys := {device: 'a'});
--
-- Answer: key, value, low, high, exact, rows (about so many), rows_low, rows_high, nodes_read, finest_granularity_us,
-- as_of_version, grouping, final (rows later than the stream's `latest` apart, no row can still change it).

CREATE MACRO bucket_avg(stream_name, measure_name, edges, keys := MAP {}, "by" := []) AS TABLE
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
            ifnull(sum(n) FILTER (at_least = n), 0) AS certain_n,
            ifnull(bool_and(at_least = at_most AND part_low = part_high) FILTER (is_open), true) AS is_settled,
            ifnull(sum(least(greatest(total * share, part_low), part_high)) FILTER (is_open), 0) AS open_sum,
            list(cut_sums(n, total, lowest, highest, at_least, at_most)) FILTER (is_open) AS cuts,
            min(lowest) FILTER (at_most > 0) AS bottom,
            max(highest) FILTER (at_most > 0) AS top,
            2.220446049250313e-16 * (sum(n) + 8) * sum(magnitude) AS rounding
        FROM bucket_parts(stream_name, measure_name, edges, keys := keys, "by" := "by")
        GROUP BY bucket, key_json
    ), climbed AS (
        SELECT
            *,
            rounding / greatest(rows_low, 1) / divisor AS slack,
            bottom / divisor AS least_avg,
            top / divisor AS most_avg,
            CASE WHEN is_settled THEN (certain + open_sum) / nullif(rows_low * divisor, 0)
                ELSE -largest_ratio(-certain, certain_n, mirrored(cuts), -top, -bottom, rounding) / divisor END AS ratio_low,
            CASE WHEN is_settled THEN (certain + open_sum) / nullif(rows_low * divisor, 0)
                ELSE largest_ratio(certain, certain_n, uppers(cuts), bottom, top, rounding) / divisor END AS ratio_high
        FROM grouped
    ), ended AS (
        SELECT
            *,
            CASE
                WHEN is_settled AND is_exact THEN ratio_low
                WHEN is_exact THEN greatest(ratio_low - slack, least_avg)
                ELSE greatest(ratio_low, least_avg) - slack
            END AS avg_low,
            CASE
                WHEN is_settled AND is_exact THEN ratio_high
                WHEN is_exact THEN least(ratio_high + slack, most_avg)
                ELSE least(ratio_high, most_avg) + slack
            END AS avg_high
        FROM climbed
    ), spread AS (
        SELECT
            *,
            least(greatest((certain + open_sum) / nullif(rows_spread * divisor, 0), avg_low), avg_high) AS spread_avg
        FROM ended
    )
    SELECT
        CAST(CAST(key_json AS JSON) AS MAP(VARCHAR, VARCHAR)) AS key,
        needs_values(has_values, spread_avg) AS value,
        CASE WHEN NOT is_forgotten THEN avg_low END AS low,
        CASE WHEN NOT is_forgotten THEN avg_high END AS high,
        is_settled AND NOT is_forgotten AS exact,
        CAST(round(rows_spread) AS BIGINT) AS rows, rows_low, rows_high, nodes_read, finest_granularity_us,
        version AS as_of_version, CAST(grouping_text AS VARCHAR[]) AS grouping, is_final AS final,
        bucket, a_us AS from_us, b_us AS to_us
    FROM spread
    WHERE rows_high > 0 OR key_json = '{}';

CREATE MACRO range_avg(stream_name, measure_name, range_start, range_end, keys := MAP {}, "by" := []) AS TABLE
    SELECT * EXCLUDE (bucket, from_us, to_us)
    FROM bucket_avg(stream_name, measure_name,
        [moment_us(CAST(range_start AS VARCHAR)), moment_us(CAST(range_end AS VARCHAR))], keys := keys, "by" := "by");
