-- One row per answer of a range question: what is certain, what is cut, and the widening that rounding needs.
--
-- Purpose:    everything the aggregates share; each of them reads only the columns it needs.
-- Parameters: as range_asked
-- Usage:      FROM range_totals('telemetry', 'temp', '2020-07-13', '2020-07-14', by := ['device']);
--
-- Sums are in units of the measure's last digit where its sums are exact (divisor = 10^decimals), else as they are.
-- Adding N doubles in any order errs by at most eps/2 * N * sum|x|; our sum and any other differ by twice that.
-- Whole numbers below 2^53 are exact in a DOUBLE, so exact measures need no widening there.

CREATE MACRO range_totals(stream_name, measure_name, range_start, range_end, keys := MAP {}, "by" := []) AS TABLE
    WITH asked AS MATERIALIZED (
        FROM range_asked(stream_name, measure_name, range_start, range_end, keys := keys, "by" := "by")
    ), parts AS (
        SELECT
            *,
            at_least < at_most AS open,
            upper_candidates(n, total, lowest, highest, at_least, at_most) AS uppers,
            lower_candidates(n, total, lowest, highest, at_least, at_most) AS lowers
        FROM range_nodes(stream_name, measure_name, range_start, range_end, keys := keys, "by" := "by")
    ), bounded AS (
        SELECT
            *,
            list_max(list_transform(uppers, lambda c: c.s)) AS part_high,
            list_min(list_transform(lowers, lambda c: c.s)) AS part_low
        FROM parts
    ), grouped AS (
        SELECT
            by_values,
            count(width_us) AS nodes_read,
            min(width_us) AS finest_granularity_us,
            sum(at_least)::BIGINT AS rows_low,
            sum(at_most)::BIGINT AS rows_high,
            sum(clamped(n * share, at_least, at_most)) AS rows_spread,
            coalesce(sum(n) FILTER (at_least = n), 0)::BIGINT AS certain_n,
            coalesce(sum(exact_total) FILTER (at_least = n), 0)::DOUBLE AS certain_exact,
            coalesce(fsum(total) FILTER (at_least = n), 0) AS certain_total,
            coalesce(sum(part_low) FILTER (open), 0) AS open_low,
            coalesce(sum(part_high) FILTER (open), 0) AS open_high,
            coalesce(sum(clamped(total * share, part_low, part_high)) FILTER (open), 0) AS open_spread,
            coalesce(list(uppers) FILTER (open), []) AS open_uppers,
            coalesce(list(lowers) FILTER (open), []) AS open_lowers,
            min(lowest) FILTER (at_most > 0) AS min_low,
            min(CASE WHEN at_least = n THEN lowest ELSE highest END) FILTER (at_least > 0) AS min_high,
            min(lowest) FILTER (at_most > 0 AND share >= 0.5) AS min_likely,
            max(highest) FILTER (at_most > 0) AS max_high,
            max(CASE WHEN at_least = n THEN highest ELSE lowest END) FILTER (at_least > 0) AS max_low,
            max(highest) FILTER (at_most > 0 AND share >= 0.5) AS max_likely,
            coalesce(sum(n * greatest(abs(lowest), abs(highest))), 0) AS magnitude,
            2.220446049250313e-16 * (sum(n) + 8) AS unit
        FROM bounded
        GROUP BY by_values
    )
    SELECT
        grouped.*,
        CASE WHEN asked.is_exact THEN certain_exact ELSE certain_total END AS certain_sum,
        CASE
            WHEN asked.is_exact AND (rows_low = rows_high OR magnitude < 9007199254740992) THEN 0
            ELSE unit * magnitude
        END AS rounding,
        asked.is_exact,
        asked.divisor,
        asked.a_us < asked.kept_us AND asked.b_us > asked.earliest_us AS is_forgotten,
        MAP(asked.by_names, by_values) AS key,
        array_to_string(list_transform(
            list_zip(asked.by_names, by_values),
            lambda pair: pair[1] || '=' || coalesce(pair[2], 'null')), ', ') AS key_text,
        asked.version AS as_of_version,
        asked.chosen.key_names AS grouping,
        coalesce(asked.b_us <= asked.newest_us - asked.latest_us, false) AS final
    FROM grouped CROSS JOIN asked
    WHERE len(asked.by_names) = 0 OR rows_high > 0;
