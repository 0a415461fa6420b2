-- remembered/<stream>: one row is one identity that was accepted and whose raw row was dropped for its age.
-- A repeat of it is told by these hashes, for as long as the stream's duplicates_within asks.
CREATE TABLE IF NOT EXISTS delta.`{path}` (
    event_us BIGINT COMMENT 'event time of the row',
    batch BIGINT COMMENT 'ingest batch that accepted it',
    identity BIGINT COMMENT 'hash of its identity, as in the index of identities',
    identity_more BIGINT COMMENT 'another 64 bits of the hash, which depend on the declaration of the identity too',
    payload BIGINT COMMENT 'hash of its content: the values of its columns, arrival apart'
) USING DELTA
COMMENT 'identities of accepted rows that raw no longer has'
TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'event_us,batch')
