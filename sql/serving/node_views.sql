-- Views of a version's nodes and series, over its segments.
--
-- Purpose:    nodes, counter_nodes, series: what is true in this version. node_segments, counter_segments: what is
--             stored, replaced and forgotten nodes too, for the macros, which read few and drop these afterwards.
-- Parameters: {node_segments}, {counter_segments}, {series}: all rows of the segments; {nodes}, {counter_nodes}: those
--             that no newer segment replaces; see segments.py
-- Usage:      SELECT count(*) FROM nodes;

CREATE VIEW node_segments AS {node_segments};
COMMENT ON VIEW node_segments IS 'Nodes as stored; of those with the same slot and start, the greatest segment holds.';

CREATE VIEW counter_segments AS {counter_segments};
COMMENT ON VIEW counter_segments IS 'As node_segments, for counter_nodes.';

CREATE VIEW series AS {series};
COMMENT ON VIEW series IS 'One row per stream, grouping and combination of its keys'' values.';
COMMENT ON COLUMN series.stream_id IS 'Stream, see streams.';
COMMENT ON COLUMN series."grouping" IS 'Place of the grouping among those of the stream, from 0.';
COMMENT ON COLUMN series.grouping_id IS 'Number of stream and grouping together.';
COMMENT ON COLUMN series.series_rank IS 'Number of the series inside its stream, from 0; sorted by grouping and lookup, later ones after those before.';
COMMENT ON COLUMN series.key IS 'Key names with their values as text; null where the row had none.';
COMMENT ON COLUMN series.key_values IS 'The values alone, in the grouping''s order.';
COMMENT ON COLUMN series.lookup IS 'The values as one text that sorts, to find a series among millions; see lookup_of.';

CREATE VIEW nodes AS
    SELECT stored.*
    FROM ({nodes}) AS stored
    SEMI JOIN ladder
        ON stored.slot // 4294967296 = ladder.first_slot // 4294967296 AND stored.start_us >= ladder.horizon_us;
COMMENT ON VIEW nodes IS 'One row per measure, level, series and node that holds a value; sorted by slot and start.';
COMMENT ON COLUMN nodes.slot IS 'slot_base of the measure + (level - 1) * 2^32 + series_rank.';
COMMENT ON COLUMN nodes.parent_us IS 'Start of the next coarser level''s node around it; -2^62 at the top.';
COMMENT ON COLUMN nodes.start_us IS 'Start of the node, aligned to its level''s width.';
COMMENT ON COLUMN nodes.n IS 'Values in the node; rows for measure *.';
COMMENT ON COLUMN nodes.total IS 'Their sum; for exact measures in units of the last digit.';
COMMENT ON COLUMN nodes.carry IS 'What rounding cut off total; null for exact measures.';
COMMENT ON COLUMN nodes.exact_total IS 'Their exact sum in units of the last digit; null for doubles, and where wide_total has it.';
COMMENT ON COLUMN nodes.wide_total IS 'The exact sum where 64 bits do not hold it, else null; a HUGEINT is 50 times slower to read.';
COMMENT ON COLUMN nodes.lowest IS 'Smallest value; for exact measures in units of the last digit.';
COMMENT ON COLUMN nodes.highest IS 'Largest value; for exact measures in units of the last digit.';
COMMENT ON COLUMN nodes.magnitude IS 'n * max(|lowest|, |highest|): the rounding of total is in proportion to it.';
COMMENT ON COLUMN nodes.first_us IS 'Event time of the first value.';
COMMENT ON COLUMN nodes.last_us IS 'Event time of the last value.';

CREATE VIEW counter_nodes AS
    SELECT stored.*
    FROM ({counter_nodes}) AS stored
    SEMI JOIN ladder
        ON stored.slot // 4294967296 = ladder.first_slot // 4294967296 AND stored.start_us >= ladder.horizon_us;
COMMENT ON VIEW counter_nodes IS 'What a counter''s nodes hold beside nodes: one row per meter, level and node; sorted alike.';
COMMENT ON COLUMN counter_nodes.slot IS 'As in nodes.';
COMMENT ON COLUMN counter_nodes.parent_us IS 'As in nodes.';
COMMENT ON COLUMN counter_nodes.start_us IS 'As in nodes.';
COMMENT ON COLUMN counter_nodes.n IS 'Readings in the node.';
COMMENT ON COLUMN counter_nodes.first_us IS 'Event time of the first reading.';
COMMENT ON COLUMN counter_nodes.last_us IS 'Event time of the last reading.';
COMMENT ON COLUMN counter_nodes.first_reading IS 'First reading; for exact measures, as all readings here, in units of the last digit.';
COMMENT ON COLUMN counter_nodes.last_reading IS 'Last reading.';
COMMENT ON COLUMN counter_nodes.highest IS 'Greatest reading.';
COMMENT ON COLUMN counter_nodes.drops_low IS 'The readings before each fall sum to at least this.';
COMMENT ON COLUMN counter_nodes.drops_high IS 'And to at most this; more only where late rows overlap.';
