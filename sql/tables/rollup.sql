-- rollup/<stream>: one row is a partial node: what one or more batches add to one (level, grouping, keys, start).
-- Combine partial nodes: rows, n and sum add; min and first take the least; max and last the greatest.
-- Sums of doubles are two columns: <measure>__sum is the nearest double, <measure>__carry what it lacks.
-- A row of level 0 marks what is contained: batch and newest event time. A row of level -i counts rows that entered at i.
CREATE TABLE IF NOT EXISTS delta.`{path}` (
    level INT COMMENT '1 = finest; 0 = marker; -i = count of rows that entered at level i',
    grouping INT COMMENT 'which of the declared groupings, from 0; -1 on a marker',
    start_us BIGINT COMMENT 'start of the node; on a marker: the newest event time contained',
    batch BIGINT COMMENT 'last ingest batch contained',
    {keys}
    rows BIGINT COMMENT 'rows in the node; on a marker: rows added',
    first_us BIGINT COMMENT 'event time of the first row',
    last_us BIGINT COMMENT 'event time of the last row'
    {measures}
) USING DELTA
COMMENT 'nodes of every level and grouping'
TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'level,grouping,start_us,batch', 'tidemark.definition' = '{definition}')
