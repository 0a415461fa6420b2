-- How complete each period of a registered query was online, and is now.
--
-- Purpose:    one row per period [start, start + period), sliding by the query's step; a result belongs to the periods
--             of its newest row, an answer to those of its tick. Periods without results and without rows still to be repaired are left out.
-- Parameters: query_name  a query with RECALL in the table queries
-- Usage:      SELECT * FROM completeness_of('answers') WHERE is_scored AND NOT met;
--
-- Answer: start_us, starts_at, ends_at; pairs = online + repaired, of pairs, results or answers, which are online if nothing has
-- revised them; open: logged rows that may still bring
-- some; recall: online / pairs; asked: the recall that was asked for; is_scored: at least 100 pairs; met: recall >= asked, null
-- where not scored; is_final: nothing is open and, rows later than the streams' `latest` apart, no row can still change it.

CREATE MACRO known_recall(query_name) AS
    CASE
        WHEN query_name IN (SELECT queries.query FROM queries WHERE recall IS NOT NULL) THEN query_name
        ELSE error(concat('no query with RECALL ', query_name, '; published: ',
            ifnull((SELECT string_agg(queries.query, ', ' ORDER BY queries.query) FROM queries WHERE recall IS NOT NULL), 'none')))
    END;

CREATE MACRO completeness_of(query_name) AS TABLE
    SELECT
        start_us, make_timestamp(start_us) AS starts_at, make_timestamp(start_us + period_us) AS ends_at,
        online + periods.repaired AS pairs, online, periods.repaired, periods.open,
        ifnull(online / nullif(online + periods.repaired, 0), 1.0) AS recall,
        queries.recall AS asked,
        online + periods.repaired >= 100 AS is_scored,
        CASE WHEN online + periods.repaired >= 100
            THEN online / (online + periods.repaired) >= queries.recall END AS met,
        periods.open = 0 AND ifnull(start_us + period_us <= final_before_us, false) AS is_final
    FROM periods JOIN queries USING (query)
    WHERE periods.query = known_recall(query_name)
    ORDER BY start_us;
