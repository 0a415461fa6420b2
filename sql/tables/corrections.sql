-- corrections/<stream>: one row is one correction of the stream's history, begun or done; a done one has two rows.
-- raw rows = accepted rows of the ledger - rows of the corrections that are done.
CREATE TABLE IF NOT EXISTS delta.`{path}` (
    number BIGINT COMMENT 'number of the correction: 1, 2, 3, ...',
    kind STRING COMMENT 'retention: raw rows dropped for their age; retract: wrong rows taken back out; rebuild: nodes built again',
    done BOOLEAN COMMENT 'false: begun, this is what will be done; true: it is done',
    by STRING COMMENT 'who asked for it',
    why STRING COMMENT 'why, in their words',
    what STRING COMMENT 'what it is about, for people',
    condition STRING COMMENT 'which raw rows go: of retention as SQL, of retract as JSON (file, where, from_us, to_us); empty for none',
    from_us BIGINT COMMENT 'earliest event time it is about; null for no limit',
    to_us BIGINT COMMENT 'first event time after it; null for no limit',
    through BIGINT COMMENT 'last ingest batch it is about',
    rows BIGINT COMMENT 'raw rows that go',
    batches MAP<BIGINT, BIGINT> COMMENT 'raw rows that go, per ingest batch',
    at TIMESTAMP COMMENT 'when this row was written',
    known_from_us BIGINT COMMENT 'of kind retention: since when identities are known, whether or not raw has their rows; null where none is forgotten',
    identity STRING COMMENT 'of kind retention: the definition of the identities that are remembered; empty for none',
    nodes STRING COMMENT 'ranges of time, as JSON, whose nodes are built again; null where others may change, too'
) USING DELTA
COMMENT 'what was changed after it had been taken in'
