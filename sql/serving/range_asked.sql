-- What one range question needs to know: one row, or an error that says what was expected.
--
-- Purpose:    resolve stream, measure, ends, keys and grouping once; the other range macros start from it.
-- Parameters: stream_name, measure_name   as published; measure '*' counts rows
--             range_start, range_end      half-open; text or time values, UTC unless they carry an offset
--             keys                        which series: {device: 'a'} or MAP {'device': 'a'}; NULL asks for missing keys
--             by                          key names to answer by: ['device']
-- Usage:      FROM range_asked('telemetry', 'temp', '2020-07-13', '2020-07-14', keys := {device: 'a'});
--
-- The grouping is the declared one with the fewest keys that still holds every key of `keys` and `by`.

CREATE MACRO range_asked(stream_name, measure_name, range_start, range_end, keys := MAP {}, "by" := []) AS TABLE
    WITH given AS (
        SELECT
            moment_us(range_start) AS a_us,
            moment_us(range_end) AS b_us,
            CAST(keys AS MAP(VARCHAR, VARCHAR)) AS wanted,
            list_distinct(CAST("by" AS VARCHAR[])) AS by_names
    ), matched AS (
        SELECT
            given.*,
            publication.*,
            answerable.* EXCLUDE (groupings),
            answerable.groupings,
            list_filter(
                answerable.groupings,
                lambda g: list_has_all(g.key_names, list_concat(map_keys(given.wanted), given.by_names))
            )[1] AS chosen
        FROM given
        CROSS JOIN publication
        LEFT JOIN answerable ON answerable.stream = stream_name AND answerable.measure = measure_name
    )
    SELECT
        *,
        CASE
            WHEN stream IS NULL THEN error(
                'nothing published as stream ' || stream_name || ', measure ' || measure_name
                || '; published: ' || array_to_string(catalog, ', '))
            WHEN a_us IS NULL OR b_us IS NULL OR a_us >= b_us THEN error(
                'the range must begin before it ends; found from ' || coalesce(CAST(a_us AS VARCHAR), 'nothing')
                || ' to ' || coalesce(CAST(b_us AS VARCHAR), 'nothing') || ' us')
            WHEN chosen IS NULL THEN error(
                'no grouping of ' || stream || ' holds the keys '
                || array_to_string(list_concat(map_keys(wanted), by_names), ', ') || '; declared: '
                || CAST(list_transform(groupings, lambda g: g.key_names) AS VARCHAR))
            ELSE range_pieces(levels, a_us, b_us)
        END AS pieces
    FROM matched;
