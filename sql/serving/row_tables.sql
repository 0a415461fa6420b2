-- What a version has of the ledger and of what queries found, whose rows versions share.
--
-- Purpose:    the next version reads from it what it may share, and what it has to add.
-- Parameters: none; the publisher fills them once.
-- Usage:      read the views ledger, completeness, pairs_<query> and so on instead.

CREATE TABLE row_tables (
    name VARCHAR, basis VARCHAR, batches BIGINT, repairs BIGINT, from_us BIGINT, shown BIGINT, log_version BIGINT
);
COMMENT ON TABLE row_tables IS 'One row per table whose rows versions share: what the next version has to know.';
COMMENT ON COLUMN row_tables.name IS 'Table in the schema rows.';
COMMENT ON COLUMN row_tables.basis IS 'Hash of what its rows depend on; the next version shares them while it stays.';
COMMENT ON COLUMN row_tables.batches IS 'Rows of batches up to this one are contained.';
COMMENT ON COLUMN row_tables.repairs IS 'Rows of repairs up to this one are contained.';
COMMENT ON COLUMN row_tables.from_us IS 'Rows of this event time or later are kept; null: all.';
COMMENT ON COLUMN row_tables.shown IS 'Rows that count as published; 0 where they are not counted.';
COMMENT ON COLUMN row_tables.log_version IS 'Commits of its Delta table up to this one are contained; null: the next version reads all.';

CREATE TABLE row_segments (segment VARCHAR, name VARCHAR, rows BIGINT, first_us BIGINT, last_us BIGINT);
COMMENT ON TABLE row_segments IS 'One row per segment and table of rows: what is stored.';
COMMENT ON COLUMN row_segments.segment IS 'Name of the file of the segment; empty for what this file holds itself.';
COMMENT ON COLUMN row_segments.name IS 'Table in the schema rows; empty where no table of this version reads it.';
COMMENT ON COLUMN row_segments.rows IS 'Rows stored.';
COMMENT ON COLUMN row_segments.first_us IS 'Least event time; null for a table that is kept whole.';
COMMENT ON COLUMN row_segments.last_us IS 'Greatest event time.';
