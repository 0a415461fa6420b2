-- Pairs of one registered query by time: of each step, or of each period.
--
-- Purpose:    the parts of the views completeness and periods that versions share; counts of one start add up.
-- Parameters: {table}: the publisher fills in the table.
-- Usage:      read the views completeness and periods instead.

CREATE TABLE {table} (start_us BIGINT, online BIGINT, repaired BIGINT);
COMMENT ON TABLE {table} IS 'Pairs by step or period; rows of one start add up.';
COMMENT ON COLUMN {table}.start_us IS 'Start of the step or period.';
COMMENT ON COLUMN {table}.online IS 'Pairs found online.';
COMMENT ON COLUMN {table}.repaired IS 'Pairs found by repair.';
