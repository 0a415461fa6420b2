-- How far a counter grew from its first reading in [range_start, range_end) to its last, through resets.
--
-- Purpose:    a step from one reading to the next is the difference, or the next one alone where it is lower; readings
--             are compared meter by meter, a meter being a series of the grouping of all keys, and meters add up.
--
-- The nodes of a meter in order of time are a chain. Its outer ends and the steps between nodes are known readings;
-- what fell inside nodes lies between drops_low and drops_high. A cut node enters as the reading it ends with, or
-- begins with; inside it, up to all of its own increase is added, and for `value` its share of the time.
-- One subtraction is rounded right; where resets, cut nodes or meters are added, both sides are moved out.
-- `rows` counts readings; without one in the range there is no increase: value and sides are null.
-- Parameters: stream_name, measure_name, range_start, range_end, edges, keys, by: see range_nodes
-- Usage:      FROM range_increase('water', 'volume', '2013-01-01', '2013-02-01', by := ['house']);

-- [grouped]
met AS (
    SELECT
        bucket, key_json, series_rank, width_us, is_exact, start_us, n, first_us, last_us, highest, drops_low, drops_high,
        last_reading - first_reading AS grown,
        first_us >= a_us AS starts_in, last_us < b_us AS ends_in,
        CASE WHEN starts_in THEN first_reading ELSE last_reading END AS enters,
        CASE WHEN ends_in THEN last_reading ELSE first_reading END AS leaves,
        (least(b_us, last_us) - greatest(a_us, first_us)) / (last_us - first_us) AS share
    FROM (
        SELECT reads.bucket, key_json, series_rank, width_us, is_exact, a_us, b_us, nodes.*
        FROM query_table(inside) AS reads
        JOIN counter_segments AS nodes ON nodes.slot = reads.slot AND nodes.parent_us = reads.parent_us
            AND start_us < b_us AND start_us > a_us - width_us AND start_us >= horizon_us
            AND CASE
                WHEN start_us >= a_us AND start_us <= b_us - width_us
                THEN nodes.parent_us < a_us OR nodes.parent_us > b_us - parent_width_us
                ELSE start_us < finer_us
            END
        {newest}
    )
    -- Of a node whose first and last reading lie on either side of the range, two are all of it: none is inside.
    WHERE last_us >= a_us AND first_us < b_us AND (first_us >= a_us OR last_us < b_us OR n > 2)
), chained AS (
    SELECT *, lag(leaves) OVER (PARTITION BY bucket, series_rank ORDER BY start_us) AS left_with
    FROM met
), meters AS (
    SELECT
        bucket, key_json, series_rank, any_value(is_exact) AS is_exact,
        count(*) AS nodes_read, min(width_us) AS finest_granularity_us, sum(n) AS n, max(highest) AS highest,
        sum(CASE WHEN starts_in AND ends_in THEN n WHEN starts_in OR ends_in THEN 1 ELSE 0 END) AS rows_low,
        sum(CASE WHEN starts_in AND ends_in THEN n WHEN starts_in OR ends_in THEN n - 1 ELSE n - 2 END) AS rows_high,
        sum(CASE WHEN starts_in AND ends_in THEN n ELSE n * share END) AS rows_spread,
        CASE WHEN bool_or(starts_in OR ends_in) THEN arg_max(leaves, start_us) - arg_min(enters, start_us)
            ELSE 0 END AS known,
        ifnull(sum(left_with) FILTER (enters < left_with), 0) AS falls,
        ifnull(sum(drops_low) FILTER (starts_in AND ends_in), 0) AS inner_low,
        ifnull(sum(drops_high) FILTER (starts_in AND ends_in), 0) AS inner_high,
        sum(drops_high) + falls AS all_drops,
        ifnull(sum(grown + drops_high) FILTER (NOT (starts_in AND ends_in)), 0) AS open_high,
        ifnull(sum((grown + drops_low) * share) FILTER (NOT (starts_in AND ends_in)), 0) AS open_value,
        bool_and(starts_in AND ends_in) AS is_whole
    FROM (FROM chained ORDER BY series_rank, start_us) GROUP BY bucket, key_json, series_rank
), bounded AS (
    SELECT
        *, known + inner_low + falls AS at_least, known + inner_high + falls + open_high AS at_most,
        -- Whole numbers of digits add up exactly as doubles while none comes to 2^50.
        CASE WHEN is_exact AND all_drops + open_high + 2 * highest < {read_back} THEN 0
            WHEN all_drops = 0 AND is_whole AND NOT is_exact THEN 0
            ELSE {eps} * (8 + CASE WHEN all_drops = 0 THEN 0 ELSE n END)
                * (all_drops + 2 * highest) END AS rounding
    FROM meters
), grouped AS (
    SELECT
        bucket, key_json, CAST(sum(nodes_read) AS BIGINT) AS nodes_read,
        min(finest_granularity_us) AS finest_granularity_us,
        CAST(sum(rows_low) AS BIGINT) AS rows_low, CAST(sum(rows_high) AS BIGINT) AS rows_high,
        sum(rows_spread) AS rows_spread,
        sum(at_least) AS at_least, sum(at_most) AS at_most,
        sum(at_least + open_value) AS spread, max(highest) AS highest,
        bool_and(at_least = at_most) AS is_point, NULL AS least_cut,
        sum(rounding) + CASE WHEN count(*) = 1 OR bool_and(is_exact) AND sum(at_most) < {read_back} THEN 0
            ELSE {eps} * (8 + count(*)) * sum(at_most) END AS rounding
    FROM (FROM bounded ORDER BY series_rank) GROUP BY bucket, key_json
)
-- [inside]
query_table(reads)
-- [by_meter]
true
-- [units]
CASE WHEN is_exact AND is_point AND rounding = 0 THEN CAST(at_least AS HUGEINT) END
-- [value]
needs_counter(is_counter, spread / divisor)
-- [low]
CASE WHEN rows_high > 0 OR is_forgotten THEN greatest(ifnull(at_least - rounding, 0), 0) / divisor END
-- [high]
CASE WHEN NOT is_forgotten THEN (at_most + rounding) / divisor END
-- [exact]
ifnull(is_point, true)
-- [beside]
NULL AS least_end, highest / divisor AS most_end
-- [sure_low]
-- Without a reading, the way from the one before it to the one after it is never longer; it may be none at all.
CASE WHEN low > 0 THEN 0 ELSE low END
-- [sure_high]
high
-- [least_side]
CASE WHEN rows_high = 0 THEN 0 ELSE low END
-- [most_side]
-- A reading between two others makes the way longer by one of the three at most.
-side_less(CASE WHEN rows_high = 0 THEN 0 ELSE -high END, absent.n * greatest(most_end, absent.greatest))
