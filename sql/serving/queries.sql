-- Registered queries and how complete their answers are.
--
-- Purpose:    what each query is, how far it and its repair have come, and its pairs per step of event time.
-- Parameters: none; the publisher fills them once. The pairs themselves are in pairs_<query>, see pairs.sql.
-- Usage:      SELECT query, pairs, repaired, open, repaired_through FROM queries;

CREATE TABLE queries (
    query VARCHAR, description VARCHAR, definition VARCHAR, window_us BIGINT, recall DOUBLE, period_us BIGINT,
    step_us BIGINT, batches BIGINT, repairs BIGINT, repaired_through BIGINT, repaired_us BIGINT, rows BIGINT, pairs BIGINT,
    repaired BIGINT, missed BIGINT, open BIGINT, refused BIGINT, unusable BIGINT, gone BIGINT, time_us BIGINT,
    newest_us BIGINT, final_before_us BIGINT, pairs_from_us BIGINT, published BIGINT
);
COMMENT ON TABLE queries IS 'One row per registered query that has run; its pairs are in pairs_<query>.';
COMMENT ON COLUMN queries.query IS 'Name as registered.';
COMMENT ON COLUMN queries.description IS 'What it is for, as its file says.';
COMMENT ON COLUMN queries.definition IS 'What its pairs depend on, as one line.';
COMMENT ON COLUMN queries.window_us IS 'How far the event times of two rows of a pair may be apart.';
COMMENT ON COLUMN queries.recall IS 'Share of the pairs of any period that was asked for at once.';
COMMENT ON COLUMN queries.period_us IS 'Length of a period.';
COMMENT ON COLUMN queries.step_us IS 'How far one period starts after the other.';
COMMENT ON COLUMN queries.batches IS 'Batches of the query that are finished, and contained.';
COMMENT ON COLUMN queries.repairs IS 'Repairs that are finished, and contained.';
COMMENT ON COLUMN queries.repaired_through IS 'Batches up to this one are repaired: no pair among their rows is missing, but see gone.';
COMMENT ON COLUMN queries.repaired_us IS 'When the last repair was finished; null before the first.';
COMMENT ON COLUMN queries.rows IS 'Rows taken in; for a band or a distance, one for each bucket in which a row was used.';
COMMENT ON COLUMN queries.pairs IS 'Pairs found online, of all time.';
COMMENT ON COLUMN queries.repaired IS 'Pairs found by repair, of all time.';
COMMENT ON COLUMN queries.missed IS 'Rows logged since they may have missed partners.';
COMMENT ON COLUMN queries.open IS 'Of those, rows that no repair has looked at yet, and whose pairs would be published.';
COMMENT ON COLUMN queries.refused IS 'Rows whose clock is ahead: they join nothing.';
COMMENT ON COLUMN queries.unusable IS 'Rows with a null key, or no usable number: they never join.';
COMMENT ON COLUMN queries.gone IS 'Logged rows whose partners may lie where raw rows are no longer kept: their pairs may be missing for good.';
COMMENT ON COLUMN queries.time_us IS 'Stream time: the newest event time of the side that is behind. Null before both have rows.';
COMMENT ON COLUMN queries.newest_us IS 'Newest event time of both sides.';
COMMENT ON COLUMN queries.final_before_us IS 'Rows later than the streams'' `latest` apart, none to come can change periods that end here or earlier.';
COMMENT ON COLUMN queries.pairs_from_us IS 'Pairs and completeness are published from this event time on; null: all of them.';
COMMENT ON COLUMN queries.published IS 'Rows of pairs_<query>.';

CREATE TABLE completeness (
    query VARCHAR, start_us BIGINT, starts_at TIMESTAMP, online BIGINT, repaired BIGINT, open BIGINT
);
COMMENT ON TABLE completeness IS 'One row per query and step of event time that has pairs, or rows still to be repaired; periods: completeness_of(query).';
COMMENT ON COLUMN completeness.query IS 'Query.';
COMMENT ON COLUMN completeness.start_us IS 'Start of the step; it is step_us long.';
COMMENT ON COLUMN completeness.starts_at IS 'start_us as a time in UTC.';
COMMENT ON COLUMN completeness.online IS 'Pairs whose newer row is in the step, found online.';
COMMENT ON COLUMN completeness.repaired IS 'Pairs whose newer row is in the step, found by repair.';
COMMENT ON COLUMN completeness.open IS 'Logged rows that no repair has looked at and whose missing pairs may be in the step.';

CREATE TABLE periods (query VARCHAR, start_us BIGINT, online BIGINT, repaired BIGINT, open BIGINT);
COMMENT ON TABLE periods IS 'One row per query and period that has pairs, or rows still to be repaired; read by completeness_of(query).';
COMMENT ON COLUMN periods.query IS 'Query.';
COMMENT ON COLUMN periods.start_us IS 'Start of the period; it is period_us long.';
COMMENT ON COLUMN periods.online IS 'Pairs whose newer row is in the period, found online.';
COMMENT ON COLUMN periods.repaired IS 'Pairs whose newer row is in the period, found by repair.';
COMMENT ON COLUMN periods.open IS 'Logged rows that no repair has looked at and whose missing pairs may be in the period.';
