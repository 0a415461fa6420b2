-- repairs/<query>: one row is one finished repair.
CREATE TABLE IF NOT EXISTS delta.`{path}` (
    repair BIGINT COMMENT 'number of the repair: 1, 2, 3, ...',
    through BIGINT COMMENT 'batches of the query up to this one are repaired',
    looked_at BIGINT COMMENT 'logged rows whose partners were looked for',
    found BIGINT COMMENT 'pairs that had been missed, or answers that have changed',
    gone BIGINT COMMENT 'logged rows whose partners may lie where raw rows are no longer kept, or which left raw themselves; of a withdrawal, retracted rows with answers that cannot be recomputed for that',
    time_us BIGINT COMMENT 'stream time of the repair',
    withdrawn BIGINT COMMENT 'results that were withdrawn as they rested on retracted rows, or answers recomputed without these; null: it repaired late rows',
    stream STRING COMMENT 'the stream of the retracted rows',
    correction BIGINT COMMENT 'the correction of this stream that retracted them',
    by STRING COMMENT 'who asked for it',
    why STRING COMMENT 'why, in their words',
    withdrawn_from MAP<STRING, BIGINT> COMMENT 'results that were withdrawn by what had found them, a batch (online 3) or a repair (repair 2)',
    committed_at TIMESTAMP COMMENT 'when it was finished'
) USING DELTA
COMMENT 'what each repair did'
