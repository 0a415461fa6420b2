-- alarms/<query>: one row is one change of one alarm; the newest row of an alarm says how it stands.
CREATE TABLE IF NOT EXISTS delta.`{path}` (
    alarm STRING COMMENT 'the alarm: stays the same while its times change'{groups},
    state STRING COMMENT 'raised: HAVING holds; cleared: it held from raised_us until cleared_us; withdrawn: later rows show it never did',
    raised_us BIGINT COMMENT 'the first tick at which HAVING held',
    cleared_us BIGINT COMMENT 'the first tick at which it held no longer, null while it holds',
    change INT COMMENT '0: the alarm was raised; each later one changed its state or times',
    merged_into STRING COMMENT 'the alarm that has this one''s time now, where later rows have closed the gap between both',
    found STRING COMMENT 'online: by a batch of the query; repair: by a repair',
    batch BIGINT COMMENT 'the batch of the query, or the number of the repair'
) USING DELTA
COMMENT 'when groups of a query began and ceased to be alarming'
