-- Views over what all registered queries found by time.
--
-- Purpose:    completeness: pairs or results by step of event time; periods: the same by period, read by completeness_of.
-- Parameters: {steps}, {periods}: SELECTs of every query with RECALL, of query, start_us, online, repaired and open.
-- Usage:      FROM completeness WHERE query = 'answers';

CREATE VIEW completeness AS
    SELECT query, start_us, make_timestamp(start_us) AS starts_at, sum(online)::BIGINT AS online,
        sum(repaired)::BIGINT AS repaired, sum(open)::BIGINT AS open
    FROM ({steps}) GROUP BY query, start_us ORDER BY query, start_us;
COMMENT ON VIEW completeness IS 'One row per query and step of event time that has pairs, or rows still to be repaired; periods: completeness_of(query).';
COMMENT ON COLUMN completeness.query IS 'Query.';
COMMENT ON COLUMN completeness.start_us IS 'Start of the step; it is step_us long.';
COMMENT ON COLUMN completeness.starts_at IS 'start_us as a time in UTC.';
COMMENT ON COLUMN completeness.online IS 'Pairs whose newer row is in the step, found online.';
COMMENT ON COLUMN completeness.repaired IS 'Pairs whose newer row is in the step, found by repair.';
COMMENT ON COLUMN completeness.open IS 'Logged rows that no repair has looked at and whose missing pairs may be in the step.';

CREATE VIEW periods AS
    SELECT query, start_us, sum(online)::BIGINT AS online, sum(repaired)::BIGINT AS repaired, sum(open)::BIGINT AS open
    FROM ({periods}) GROUP BY query, start_us ORDER BY query, start_us;
COMMENT ON VIEW periods IS 'One row per query and period that has pairs, or rows still to be repaired; read by completeness_of(query).';
COMMENT ON COLUMN periods.query IS 'Query.';
COMMENT ON COLUMN periods.start_us IS 'Start of the period; it is period_us long.';
COMMENT ON COLUMN periods.online IS 'Pairs whose newer row is in the period, found online.';
COMMENT ON COLUMN periods.repaired IS 'Pairs whose newer row is in the period, found by repair.';
COMMENT ON COLUMN periods.open IS 'Logged rows that no repair has looked at and whose missing pairs may be in the period.';
