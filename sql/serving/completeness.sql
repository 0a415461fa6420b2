-- How complete each period of a registered query was online, and is now.
--
-- Purpose:    one row per period [start, start + period), sliding by the query's step; a pair belongs to the periods of
--             its newer row. Periods without pairs and without rows still to be repaired are left out.
-- Parameters: query_name  a query of the table queries
-- Usage:      SELECT * FROM completeness_of('answers') WHERE is_scored AND NOT met;
--
-- Answer: start_us, starts_at, ends_at; pairs = online + repaired; open: logged rows that may still bring pairs;
-- recall: online / pairs; asked: the recall that was asked for; is_scored: at least 100 pairs; met: recall >= asked, null
-- where not scored; is_final: nothing is open and, rows later than the streams' `latest` apart, no row can still change it.

CREATE MACRO known_query(query_name) AS
    CASE
        WHEN query_name IN (SELECT queries.query FROM queries) THEN query_name
        ELSE error(concat('no query ', query_name, '; published: ',
            ifnull((SELECT string_agg(queries.query, ', ' ORDER BY queries.query) FROM queries), 'none')))
    END;

CREATE MACRO completeness_of(query_name) AS TABLE
    WITH asked AS MATERIALIZED (
        SELECT recall AS asked, period_us, step_us, final_before_us
        FROM queries WHERE queries.query = known_query(query_name)
    ),
    steps AS MATERIALIZED (
        SELECT start_us, online, repaired, open, opened, lag(start_us) OVER (ORDER BY start_us) AS before_us
        FROM completeness WHERE completeness.query = query_name
    ),
    -- What is shorter than a period is one period.
    span AS (
        SELECT min(start_us) AS first_us, greatest(max(start_us) + any_value(step_us - period_us), min(start_us)) AS last_us
        FROM steps, asked
    ),
    -- Every start of which this step is the first that has anything.
    starts AS (
        SELECT unnest(range(
            greatest(ifnull(before_us + step_us, first_us), start_us - period_us + step_us, first_us),
            least(start_us, last_us) + step_us,
            step_us
        )) AS start_us
        FROM steps, asked, span
    ),
    placed AS (
        SELECT start_us, online, repaired, open, opened FROM steps
        UNION ALL
        SELECT start_us, 0, 0, 0, 0 FROM starts ANTI JOIN steps USING (start_us)
    ),
    sliding AS (
        SELECT
            start_us, asked, period_us, final_before_us,
            CAST(sum(online) OVER inside AS BIGINT) AS online,
            CAST(sum(repaired) OVER inside AS BIGINT) AS repaired,
            CAST(open - opened + sum(opened) OVER inside AS BIGINT) AS open
        FROM placed, asked
        WINDOW inside AS (ORDER BY start_us RANGE BETWEEN CURRENT ROW AND (period_us - step_us) FOLLOWING)
    )
    SELECT
        start_us, make_timestamp(start_us) AS starts_at, make_timestamp(start_us + period_us) AS ends_at,
        online + repaired AS pairs, online, repaired, open,
        ifnull(online / nullif(online + repaired, 0), 1.0) AS recall,
        asked,
        online + repaired >= 100 AS is_scored,
        CASE WHEN online + repaired >= 100 THEN online / (online + repaired) >= asked END AS met,
        open = 0 AND ifnull(start_us + period_us <= final_before_us, false) AS is_final
    FROM sliding, span WHERE start_us <= last_us
    ORDER BY start_us;
