-- Registered queries: what each is and how far it has come; how complete the pairs of joins are.
--
-- Purpose:    what each query is, how far it and its repair have come, and pairs per step of event time. What it finds is
--             in pairs_<query>, see pairs.sql, in multiway_<query>, see multiway.sql, in selection_<query>, see
--             selection.sql, or in answers_<query> and alarms_<query>, see answers.sql and alarms.sql.
-- Parameters: none; the publisher fills them once.
-- Usage:      SELECT query, kind, published, repaired, open, repaired_through FROM queries;

CREATE TABLE queries (
    query VARCHAR, kind VARCHAR, description VARCHAR, statement VARCHAR, batches BIGINT, repairs BIGINT,
    repaired_through BIGINT, repaired_us BIGINT, rows BIGINT, repaired BIGINT, withdrawn BIGINT, missed BIGINT, open BIGINT, refused BIGINT,
    unusable BIGINT, gone BIGINT, time_us BIGINT, newest_us BIGINT, final_before_us BIGINT, published_from_us BIGINT,
    published BIGINT, rows_found BIGINT, window_us BIGINT, recall DOUBLE, period_us BIGINT, step_us BIGINT, answered BIGINT,
    revised BIGINT, late BIGINT, alarms BIGINT, every_us BIGINT, slack_us BIGINT, "groups" VARCHAR[], method VARCHAR,
    doubts VARCHAR[], table_id VARCHAR
);
COMMENT ON TABLE queries IS 'One row per registered query that has run; what it found is in pairs_<query>, multiway_<query>, selection_<query> or answers_<query>.';
COMMENT ON COLUMN queries.query IS 'Name as registered.';
COMMENT ON COLUMN queries.kind IS 'pairs: a join whose pairs are in pairs_<query>; multiway: a join of three streams or more, in multiway_<query>; aggregate: answers at ticks, in answers_<query>; selection: rows of one stream, in selection_<query>.';
COMMENT ON COLUMN queries.description IS 'What it is for, as its file says.';
COMMENT ON COLUMN queries.statement IS 'The query as it was written, in one line without comments.';
COMMENT ON COLUMN queries.batches IS 'Batches of the query that are finished, and contained.';
COMMENT ON COLUMN queries.repairs IS 'Repairs that are finished, and contained.';
COMMENT ON COLUMN queries.repaired_through IS 'Batches up to this one are repaired: nothing among their rows is missing, but see gone.';
COMMENT ON COLUMN queries.repaired_us IS 'When the last repair was finished; null before the first.';
COMMENT ON COLUMN queries.rows IS 'Rows taken in; for a band or a distance, one for each bucket in which a row was used.';
COMMENT ON COLUMN queries.repaired IS 'Pairs or results found, or answers changed, by repair, of all time.';
COMMENT ON COLUMN queries.withdrawn IS 'Pairs, results or rows withdrawn as they rested on rows that were retracted, or answers changed for that, of all time.';
COMMENT ON COLUMN queries.missed IS 'Rows logged since they may have missed partners, or belong to ticks behind the slack.';
COMMENT ON COLUMN queries.open IS 'Of those, rows that no repair has looked at yet, and that may change what is published.';
COMMENT ON COLUMN queries.refused IS 'Rows whose clock is ahead: they join nothing.';
COMMENT ON COLUMN queries.unusable IS 'Rows with a null key, or no usable number: they never join.';
COMMENT ON COLUMN queries.gone IS 'Logged rows whose partners may lie where raw rows are no longer kept: what they add may be missing for good; and retracted rows with answers that cannot be recomputed for that.';
COMMENT ON COLUMN queries.time_us IS 'The time that all sides have passed: ticks up to it are answered. Null before all have rows.';
COMMENT ON COLUMN queries.newest_us IS 'Newest event time of all sides.';
COMMENT ON COLUMN queries.final_before_us IS 'Rows later than the streams'' `latest` apart, none to come can change what is before it; nor, of an aggregate, can the repair.';
COMMENT ON COLUMN queries.published_from_us IS 'What it found is published from this event time on; null: all of it.';
COMMENT ON COLUMN queries.published IS 'Rows of pairs_<query>, multiway_<query>, selection_<query> or answers_<query>.';
COMMENT ON COLUMN queries.rows_found IS 'Pairs or results found online, or rows selected, of all time. Null for an aggregate.';
COMMENT ON COLUMN queries.window_us IS 'How far the event times of two rows of a pair may be apart; the widest window of a multiway join.';
COMMENT ON COLUMN queries.recall IS 'Share of the pairs, results or answers of any period that was asked for at once; null, as are the next two, without RECALL.';
COMMENT ON COLUMN queries.period_us IS 'Length of a period.';
COMMENT ON COLUMN queries.step_us IS 'How far one period starts after the other.';
COMMENT ON COLUMN queries.answered IS 'Answers given for the first time, of all time: ticks and groups. This and all that follow, slack_us apart: null for pairs, multiway joins and selections.';
COMMENT ON COLUMN queries.revised IS 'Answers that late rows changed at once.';
COMMENT ON COLUMN queries.late IS 'Rows that came after a tick they belong to had been answered.';
COMMENT ON COLUMN queries.alarms IS 'Alarms that are raised now; null for a query that raises none.';
COMMENT ON COLUMN queries.every_us IS 'Answers are given at whole multiples of it.';
COMMENT ON COLUMN queries.slack_us IS 'How far behind the last tick late rows still revise answers at once; how far behind all streams they still find all results.';
COMMENT ON COLUMN queries."groups" IS 'Columns of GROUP BY; its other outputs are in the table outputs.';
COMMENT ON COLUMN queries.method IS 'What computes it.';
COMMENT ON COLUMN queries.doubts IS 'Sentences about rows of its streams that nobody can be sure of: accepted ones that may repeat others, rejected ones whose local time comes twice. Nothing from the first of them on is final.';
COMMENT ON COLUMN queries.table_id IS 'Which table its counts and times were read from; the next version adds to them while it is the same.';

CREATE TABLE outputs (query VARCHAR, output VARCHAR, says VARCHAR, is_count BOOLEAN);
COMMENT ON TABLE outputs IS 'One row per aggregate that a query answers: what answer_series can be asked for.';
COMMENT ON COLUMN outputs.query IS 'Query.';
COMMENT ON COLUMN outputs.output IS 'Its name, a column of answers_<query>.';
COMMENT ON COLUMN outputs.says IS 'What it is.';
COMMENT ON COLUMN outputs.is_count IS 'It counts: 0 where nothing joins; another aggregate is null there.';

CREATE TABLE open_steps (query VARCHAR, start_us BIGINT, open BIGINT);
COMMENT ON TABLE open_steps IS 'One row per query and step of event time where rows are still to be repaired; read by completeness.';
COMMENT ON COLUMN open_steps.query IS 'Query.';
COMMENT ON COLUMN open_steps.start_us IS 'Start of the step.';
COMMENT ON COLUMN open_steps.open IS 'Logged rows that no repair has looked at and whose missing pairs may be in the step.';

CREATE TABLE open_periods (query VARCHAR, start_us BIGINT, open BIGINT);
COMMENT ON TABLE open_periods IS 'One row per query and period where rows are still to be repaired; read by periods.';
COMMENT ON COLUMN open_periods.query IS 'Query.';
COMMENT ON COLUMN open_periods.start_us IS 'Start of the period.';
COMMENT ON COLUMN open_periods.open IS 'Logged rows that no repair has looked at and whose missing pairs may be in the period.';
