-- The nodes that answer a range, one row each: what they hold and how many of their rows can be inside.
--
-- Purpose:    AAQuery's reading step, which the aggregates share, and the way to see where an answer comes from.
--             bucket_nodes takes several ranges at once, which touch each other; a chart is one question, not many.
-- Parameters: stream_name, measure_name   as published; measure '*' counts rows
--             range_start, range_end      half-open; text or time values, UTC unless they carry an offset
--             edges                       microseconds UTC: bucket i is [edges[i], edges[i + 1])
--             keys                        which series: {device: 'a'} or MAP {'device': 'a'}; NULL asks for missing keys
--             by                          key names to answer by: ['device']
-- Usage:      FROM range_nodes('telemetry', 'temp', '2020-07-13', '2020-07-14', by := ['device']);
--
--     level 3   |               |#######whole#######|               |      whole nodes whose parent is cut
--     level 2   |       |   |###|                   |###|   |              or above which there is none
--     level 1   |        a>.|                           |..<b              cut nodes without children: spread
--
-- Horizons are aligned to the parent's width, so a parent has all its children or none. Below the top only children
-- of the two nodes that the ends cut can be needed: that is the join on parent_us. Of a whole node all n rows are
-- inside. Of a cut node at_least..at_most are, from the event times of its first and last row, and `share` is the
-- part of its time inside. Where nothing is asked by key, one row per bucket with n = 0 stands for "no rows".
--
-- A cut node of at most `refined_rows` rows gives way to the nodes of the grouping `refined_by`, see refinement.py.
--
-- Macros that take the name of a table (`asked`, `reads`, `inside`) share a step: `asked` has one row per bucket and
-- level, `reads` one per piece of a level of a series to look at, `inside` one per node. Their callers say
-- WITH asked AS ..., reads AS ..., inside AS ...
--
-- {newest} is filled in where a version has several segments: of a node that several hold, the newest is meant.
--
-- A series is found by its `lookup`, the key values in the grouping's order: all values asked for are one text,
-- the first few a range of texts. Blocks outside are not read, so it does not matter how many series there are.

CREATE MACRO needs_values(has_values, answer) AS
    CASE WHEN has_values THEN answer
    ELSE error(concat('measure * has rows but no values: only range_count can answer it', answer)) END;

CREATE MACRO needs_counter(is_counter, answer) AS
    CASE WHEN is_counter THEN answer ELSE error(concat('only a measure declared a counter has an increase', answer)) END;

CREATE MACRO needs_no_counter(is_counter, answer) AS
    CASE WHEN is_counter THEN error(concat(
        'readings of a counter do not add up: ask for its increase (range_increase)', answer)) ELSE answer END;

CREATE MACRO leading_keys(key_names, wanted) AS key_names[1:ifnull(
    list_position(list_transform(key_names, lambda name: list_contains(map_keys(wanted), name)), false) - 1,
    len(key_names)
)];

-- Of ranges of rows in doubt that a range touches: all that can be taken away, or added, see range_template. Null without any.
CREATE MACRO sum_of_doubt(met) AS CASE WHEN len(met) > 0 THEN {
    n: CAST(list_sum(list_transform(met, lambda one: one.n)) AS BIGINT),
    below: list_sum(list_transform(met, lambda one: one.below)),
    above: list_sum(list_transform(met, lambda one: one.above)),
    least: list_min(list_transform(met, lambda one: one.least)),
    greatest: list_max(list_transform(met, lambda one: one.greatest))
} END;

CREATE MACRO doubt_of(ranges, a_us, b_us) AS
    sum_of_doubt(list_filter(ranges, lambda met: met.from_us < b_us AND met.to_us >= a_us));

-- A lower side without some amount, rounded outward unless both are whole.
CREATE MACRO side_less(side, amount) AS
    CASE WHEN side = floor(side) AND amount = floor(amount) AND abs(side) + amount < {whole_doubles} THEN side - amount
    ELSE side - amount - {sum_rounding} * (abs(side) + amount) END;

-- Whole numbers of the last digit below this are doubles, and these by 10^digits read as they are.
CREATE MACRO whole_below(digits) AS CASE WHEN digits = 0 THEN {whole_doubles} ELSE {read_back} END;

-- An end of whole numbers of the last digit, moved down where doubles do not hold it.
CREATE MACRO least_of(units, is_exact, divisor) AS units / divisor - CASE
    WHEN is_exact AND abs(units) >= whole_below(digits_of(divisor)) THEN {quotient_rounding} * abs(units / divisor)
    ELSE 0
END;

-- by_meter asks the grouping of all keys, whatever is asked by.
CREATE MACRO bucket_asked(stream_name, measure_name, edges, keys, "by", by_meter := false) AS TABLE
    SELECT
        CASE
            WHEN stream IS NULL THEN error(concat(
                'no measure ', asked_stream, '.', asked_measure, ' here; published: ', catalog))
            WHEN len(unknown_keys) > 0 THEN error(concat(
                'no key ', array_to_string(unknown_keys, ', '), ' in a grouping of ', stream, '; declared: ', declared))
            WHEN chosen IS NULL THEN error(concat(
                'no grouping of ', stream, ' holds the keys ', CAST(wanted AS VARCHAR), ' and ',
                CAST(by_names AS VARCHAR), '; declared: ', declared))
            WHEN a_us < b_us THEN a_us
            ELSE error(concat(
                'the range must begin before it ends; from ', make_timestamp(a_us), ' to ', make_timestamp(b_us)))
        END AS a_us,
        bucket, b_us, wanted, by_names, len(by_names) > 0 AS is_by_key,
        chosen.id AS grouping_id, CAST(chosen.key_names AS VARCHAR) AS grouping_text,
        ifnull(lookup_of(list_transform(leading_keys(chosen.key_names, wanted), lambda name: wanted[name])), '')
            AS lookup_from,
        level, first_slot, width_us, parent_width_us, finer_us, horizon_us, is_exact, divisor, version,
        measure <> '*' AS has_values, is_counter, chosen.key_names AS key_names,
        chosen.refined_by AS refined_by,
        CASE WHEN ranges * chosen.refined_series <= {most_reads} THEN chosen.refined_rows END AS refined_rows,
        greatest(a_us, earliest_us) < least(b_us, kept_us) AS is_forgotten,
        b_us <= final_before_us AS is_final, asked_stream, asked_measure
    FROM (
        SELECT
            given.*, ladder.*, version, catalog,
            list_filter(
                map_keys(wanted) || by_names,
                lambda asked_key: NOT list_contains(flatten(list_transform(groupings, lambda g: g.key_names)), asked_key)
            ) AS unknown_keys,
            list_filter(
                groupings,
                lambda g: list_has_all(g.key_names, map_keys(wanted) || by_names) AND g.is_meter >= by_meter
            )[1] AS chosen
        FROM (
            SELECT
                asked_stream, asked_measure, wanted, by_names, len(edges_us) - 1 AS ranges,
                unnest(range(1, len(edges_us))) AS bucket, unnest(edges_us[:-2]) AS a_us, unnest(edges_us[2:]) AS b_us
            FROM (
                -- Each parameter once, as a column: a prepared question is then planned once, whatever is asked.
                SELECT
                    CAST(stream_name AS VARCHAR) AS asked_stream,
                    CAST(measure_name AS VARCHAR) AS asked_measure,
                    CAST(edges AS BIGINT[]) AS edges_us,
                    CAST(keys AS MAP(VARCHAR, VARCHAR)) AS wanted,
                    CAST("by" AS VARCHAR[]) AS by_names
            )
        ) AS given
        CROSS JOIN publication
        LEFT JOIN ladder ON ladder.stream = asked_stream AND ladder.measure = asked_measure
    );

CREATE MACRO reads_of(asked, first_rank := 0, last_rank := 4611686018427387904) AS TABLE
    SELECT
        bucket, a_us, b_us, width_us, parent_width_us, finer_us, horizon_us, is_exact, series_rank,
        first_slot, first_slot + series_rank AS slot, key_values, refined_rows,
        unnest(list_filter(
            list_distinct([
                ifnull(floor_to(a_us, parent_width_us), {kept_forever_us}),
                ifnull(floor_to(b_us, parent_width_us), {kept_forever_us})
            ]),
            lambda parent: parent < a_us OR parent > b_us - parent_width_us AND parent < b_us
        )) AS parent_us,
        CASE WHEN is_by_key THEN to_json(MAP(by_names, list_transform(by_names, lambda name: key[name])))
            ELSE '{}' END AS key_json
    FROM query_table(asked) AS asked JOIN series ON series.grouping_id = asked.grouping_id
        AND series.lookup >= lookup_from AND series.lookup <= lookup_from || chr(1114111)
        AND series_rank >= first_rank AND series_rank <= last_rank
    WHERE len(list_filter(map_keys(wanted), lambda name: key[name] IS DISTINCT FROM wanted[name])) = 0;

CREATE MACRO least_inside(n, first_us, last_us, a_us, b_us) AS CASE
    WHEN first_us >= a_us AND last_us < b_us THEN n
    WHEN last_us < a_us OR first_us >= b_us THEN 0
    WHEN first_us >= a_us OR last_us < b_us THEN 1
    ELSE 0
END;

CREATE MACRO most_inside(n, first_us, last_us, a_us, b_us) AS CASE
    WHEN first_us >= a_us AND last_us < b_us THEN n
    WHEN last_us < a_us OR first_us >= b_us THEN 0
    WHEN first_us >= a_us OR last_us < b_us THEN n - 1
    -- The first and the last are two, and neither is inside.
    ELSE n - 2
END;

CREATE MACRO nodes_inside(reads) AS TABLE
    SELECT
        reads.* EXCLUDE (slot, parent_us),
        nodes.slot, start_us, n, total, exact_total, wide_total, lowest, highest, magnitude,
        least_inside(n, first_us, last_us, a_us, b_us) AS at_least,
        most_inside(n, first_us, last_us, a_us, b_us) AS at_most,
        (least(b_us, start_us + width_us) - greatest(a_us, start_us)) / width_us AS share
    FROM query_table(reads) AS reads
    JOIN node_segments AS nodes ON nodes.slot = reads.slot AND nodes.parent_us = reads.parent_us
        AND start_us < b_us AND start_us > a_us - width_us AND start_us >= horizon_us
        AND CASE
            WHEN start_us >= a_us AND start_us <= b_us - width_us
            THEN nodes.parent_us < a_us OR nodes.parent_us > b_us - parent_width_us
            ELSE start_us < finer_us
        END
    {newest};

CREATE MACRO refined_nodes(asked, reads) AS TABLE
    WITH met AS MATERIALIZED (
        SELECT *, ifnull(at_least < n AND at_most > 0 AND n <= refined_rows, false) AS is_refined
        FROM nodes_inside(reads)
    ), finer_series AS (
        SELECT series.series_rank AS finer_rank, list_transform(key_names, lambda name: key[name]) AS key_values
        FROM query_table(asked) AS asked JOIN series ON series.grouping_id = refined_by
        WHERE level = 1 AND bucket = 1
    ), finer_reads AS (
        SELECT met.* REPLACE (first_slot + finer_rank AS slot)
        FROM met JOIN finer_series USING (key_values) WHERE is_refined
    )
    SELECT
        bucket, key_json, is_exact, slot, width_us, start_us, n, total, exact_total, wide_total, lowest, highest,
        magnitude, at_least, at_most, share
    FROM met WHERE NOT is_refined
    UNION ALL
    SELECT
        bucket, key_json, is_exact, nodes.slot, width_us, nodes.start_us, nodes.n, nodes.total, nodes.exact_total,
        nodes.wide_total, nodes.lowest, nodes.highest, nodes.magnitude,
        least_inside(nodes.n, first_us, last_us, a_us, b_us), most_inside(nodes.n, first_us, last_us, a_us, b_us), share
    FROM finer_reads AS reads
    JOIN node_segments AS nodes ON nodes.slot = reads.slot AND nodes.start_us = reads.start_us
    {newest};

CREATE MACRO bucket_nodes(stream_name, measure_name, edges, keys := MAP {}, "by" := []) AS TABLE
    WITH asked AS MATERIALIZED (FROM bucket_asked(stream_name, measure_name, edges, keys, "by")),
    reads AS (FROM reads_of('asked'))
    SELECT
        key_json, grouping_text, version, inside.is_exact, divisor, has_values, is_forgotten, is_final,
        inside.width_us, start_us, n, total, exact_total, wide_total, lowest, highest, magnitude,
        at_least, at_most, share, bucket, a_us, b_us
    FROM refined_nodes('asked', 'reads') AS inside JOIN asked USING (bucket) WHERE level = 1
    UNION ALL
    SELECT
        '{}', grouping_text, version, is_exact, divisor, has_values, is_forgotten, is_final, NULL, NULL,
        0, 0, 0, NULL, NULL, NULL, 0, 0, 0, 0, bucket, a_us, b_us
    FROM asked WHERE level = 1 AND NOT is_by_key;

CREATE MACRO range_nodes(stream_name, measure_name, range_start, range_end, keys := MAP {}, "by" := []) AS TABLE
    SELECT * EXCLUDE (bucket, a_us, b_us)
    FROM bucket_nodes(stream_name, measure_name,
        [timestamp_us(CAST(range_start AS VARCHAR)), timestamp_us(CAST(range_end AS VARCHAR))], keys := keys, "by" := "by");
