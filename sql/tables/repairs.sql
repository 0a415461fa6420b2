-- repairs/<query>: one row is one finished repair.
CREATE TABLE IF NOT EXISTS delta.`{path}` (
    repair BIGINT COMMENT 'number of the repair: 1, 2, 3, ...',
    through BIGINT COMMENT 'batches of the query up to this one are repaired',
    looked_at BIGINT COMMENT 'logged rows whose partners were looked for',
    found BIGINT COMMENT 'pairs that had been missed, or answers that have changed',
    gone BIGINT COMMENT 'logged rows whose partners may lie where raw rows are no longer kept, or which left raw themselves',
    time_us BIGINT COMMENT 'stream time of the repair',
    committed_at TIMESTAMP COMMENT 'when it was finished'
) USING DELTA
COMMENT 'what each repair did'
