-- An output of a registered join-aggregate over evenly spaced buckets of ticks: what a chart of it shows.
--
-- Purpose:    at most `points` rows, each of equally many ticks, per group that has an answer in the range. The newest
--             answers are read, also those that HAVING does not let through: `holding` counts the ticks where it does.
-- Parameters: query_name   an aggregate of the table queries
--             output_name  one of its outputs, see the table outputs
--             range_start  first moment, such as '2026-01-05' or '2026-01-05T06:00+01:00'; see timestamp_us
--             range_end    first moment after
--             points       how many buckets at most, 1 to 10000
-- Usage:      FROM answer_series('busy_places', 'n', '2026-01-05', '2026-01-06', 96);
--
-- Answer: bucket (from 1), starts_at, ends_at; value: at the last tick; low, high: least and greatest at any tick; ticks:
-- how many are answered and published; answers: at how many something joins; holding; final: none of it can change any
-- more, rows later than the streams' `latest` apart; key: the group. Where nothing joins a count is 0, all else null.

CREATE MACRO known_aggregate(query_name) AS
    CASE
        WHEN query_name IN (SELECT queries.query FROM queries WHERE kind = 'aggregate') THEN query_name
        ELSE error(concat('no aggregate ', query_name, '; published: ',
            ifnull((SELECT string_agg(queries.query, ', ' ORDER BY queries.query) FROM queries WHERE kind = 'aggregate'), 'none')))
    END;

CREATE MACRO known_output(query_name, output_name) AS
    CASE
        WHEN output_name IN (SELECT outputs.output FROM outputs WHERE outputs.query = query_name) THEN output_name
        ELSE error(concat('no output ', output_name, ' of ', query_name, '; there are: ',
            ifnull((SELECT string_agg(outputs.output, ', ' ORDER BY outputs.output) FROM outputs WHERE outputs.query = query_name), 'none')))
    END;

-- The first tick at or after a moment.
CREATE MACRO tick_from(at_us, every_us) AS -floor_to(-at_us, every_us);

CREATE MACRO answer_series(query_name, output_name, range_start, range_end, points) AS TABLE
    WITH asked AS (
        SELECT
            queries.every_us, final_before_us, "groups", CASE WHEN is_count THEN 0.0 END AS nothing,
            tick_from(timestamp_us(CAST(range_start AS VARCHAR)), queries.every_us) AS first_us,
            tick_from(timestamp_us(CAST(range_end AS VARCHAR)), queries.every_us) AS end_us,
            -- What is answered and published of it.
            greatest(first_us, published_from_us) AS since_us, least(end_us, tick_from(time_us + 1, queries.every_us)) AS until_us,
            CASE
                WHEN points BETWEEN 1 AND 10000 THEN points
                ELSE error(concat('points must be from 1 to 10000, found ', points))
            END AS most
        FROM queries JOIN outputs ON outputs.query = queries.query
        WHERE queries.query = known_aggregate(query_name) AND outputs.output = known_output(query_name, output_name)
            AND time_us IS NOT NULL
    ), spaced AS (
        SELECT *, CAST(((end_us - first_us) // every_us + most - 1) // most * every_us AS BIGINT) AS width_us
        FROM asked WHERE first_us < end_us
    ), buckets AS (
        SELECT
            bucket, first_us + (bucket - 1) * width_us AS from_us, from_us + width_us AS to_us, nothing,
            least(to_us, until_us) - every_us AS last_us,
            greatest((least(to_us, until_us) - greatest(from_us, since_us)) // every_us, 0) AS ticks,
            ifnull(least(to_us, end_us) - every_us < final_before_us, false) AS final
        FROM (SELECT *, unnest(range(1, (end_us - first_us + width_us - 1) // width_us + 1)) AS bucket FROM spaced)
    ), answered AS (
        SELECT (tick_us - first_us) // width_us + 1 AS bucket, key_values, tick_us, value, holds
        FROM answer_values, spaced
        WHERE answer_values.query = query_name AND answer_values.output = output_name AND tick_us >= since_us
            AND tick_us < until_us
            -- The same once more, so that only this time is read.
            AND tick_us >= timestamp_us(CAST(range_start AS VARCHAR)) AND tick_us < timestamp_us(CAST(range_end AS VARCHAR))
    ), found AS (
        SELECT
            bucket, key_values, max(value) FILTER (tick_us = last_us) AS value, count(*) FILTER (tick_us = last_us) AS is_last,
            min(value) AS low, max(value) AS high, count(*) AS answers, count(*) FILTER (holds) AS holding
        FROM answered JOIN buckets USING (bucket) GROUP BY bucket, key_values
    ), keys AS (
        SELECT DISTINCT key_values FROM answered
        UNION SELECT []::VARCHAR[] FROM asked WHERE len("groups") = 0
    )
    SELECT
        bucket, make_timestamp(from_us) AS starts_at, make_timestamp(to_us) AS ends_at,
        CASE WHEN is_last > 0 THEN value WHEN ticks > 0 THEN nothing END AS value,
        CASE WHEN ifnull(answers, 0) < ticks THEN least(low, nothing) ELSE low END AS low,
        CASE WHEN ifnull(answers, 0) < ticks THEN greatest(high, nothing) ELSE high END AS high,
        ticks, ifnull(answers, 0) AS answers, ifnull(holding, 0) AS holding, final,
        MAP((SELECT "groups" FROM asked), key_values) AS key
    FROM buckets CROSS JOIN keys LEFT JOIN found USING (bucket, key_values)
    ORDER BY bucket, key_values;
