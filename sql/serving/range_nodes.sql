-- The nodes that answer a range, one row each: what they hold and how many of their rows can be inside.
--
-- Purpose:    AAQuery's reading step, and the way to see where an answer comes from.
-- Parameters: as range_asked
-- Usage:      FROM range_nodes('telemetry', 'temp', '2020-07-13', '2020-07-14', by := ['device']);
--
-- A whole node has at_least = at_most = n. A cut node with n rows has at_least..at_most rows inside, from the event
-- times of its first and last row; `share` is the part of its time inside. One row without a node (width_us null)
-- stands for "no rows" when nothing is asked by key.

CREATE MACRO range_nodes(stream_name, measure_name, range_start, range_end, keys := MAP {}, "by" := []) AS TABLE
    WITH asked AS MATERIALIZED (
        FROM range_asked(stream_name, measure_name, range_start, range_end, keys := keys, "by" := "by")
    ), wanted_series AS (
        SELECT
            series.series_rank,
            list_transform(asked.by_names, lambda name: series.key[name]) AS by_values
        FROM asked
        JOIN series ON series.stream_id = asked.stream_id AND series.grouping = asked.chosen.grouping
        WHERE len(list_filter(
            map_keys(asked.wanted), lambda name: series.key[name] IS DISTINCT FROM asked.wanted[name])) = 0
    ), runs AS (
        SELECT asked.slot_base, asked.series_count, unnest(asked.pieces, recursive := true) FROM asked
    ), reads AS (
        SELECT
            runs.*,
            wanted_series.by_values,
            runs.slot_base + (runs.level - 1) * runs.series_count + wanted_series.series_rank AS slot
        FROM runs CROSS JOIN wanted_series
    ), touched AS (
        SELECT
            reads.by_values, reads.level, reads.width_us, reads.cut, nodes.start_us,
            nodes.n, nodes.total, nodes.exact_total, nodes.lowest, nodes.highest,
            CASE
                WHEN NOT reads.cut OR nodes.first_us >= reads.from_us AND nodes.last_us < reads.to_us THEN 'all'
                WHEN nodes.last_us < reads.from_us OR nodes.first_us >= reads.to_us THEN 'none'
                WHEN nodes.first_us >= reads.from_us AND nodes.first_us < reads.to_us
                    OR nodes.last_us >= reads.from_us AND nodes.last_us < reads.to_us THEN 'some'
                ELSE 'any'
            END AS inside,
            CASE WHEN reads.cut THEN (reads.to_us - reads.from_us) / reads.width_us ELSE 1.0 END AS share
        FROM reads
        JOIN nodes ON nodes.slot = reads.slot AND nodes.parent_us = reads.parent_us
            AND nodes.start_us >= reads.lo AND nodes.start_us < reads.hi
    )
    SELECT
        *,
        CASE inside WHEN 'all' THEN n WHEN 'some' THEN 1 ELSE 0 END AS at_least,
        CASE inside WHEN 'all' THEN n WHEN 'some' THEN n - 1 WHEN 'any' THEN n ELSE 0 END AS at_most
    FROM touched
    UNION ALL
    SELECT [], NULL, NULL, false, NULL, 0, 0, 0, NULL, NULL, 'all', 1.0, 0, 0 FROM asked WHERE len(by_names) = 0;
