-- Tables of one published version.
--
-- Purpose:    what the range macros read (nodes, series, ladder) and what people and `tidemark status` read.
-- Parameters: none; the publisher fills them once, afterwards the file never changes.
-- Usage:      SELECT table_name, comment FROM duckdb_tables();

-- One row: this version.
CREATE TABLE publication (
    version INTEGER, published_us BIGINT, fingerprint VARCHAR, catalog VARCHAR
);
COMMENT ON TABLE publication IS 'One row: this version of the published file.';
COMMENT ON COLUMN publication.version IS 'Counts up by one with every publish that changed something.';
COMMENT ON COLUMN publication.published_us IS 'When it was written, microseconds since the epoch, UTC.';
COMMENT ON COLUMN publication.fingerprint IS 'Hash of everything it was made from; the same again makes no new version.';
COMMENT ON COLUMN publication.catalog IS 'Every stream.measure that can be asked for.';

CREATE TABLE streams (
    stream_id INTEGER, stream VARCHAR, definition VARCHAR, newest_us BIGINT, earliest_us BIGINT, batch BIGINT,
    latest_us BIGINT, raw_path VARCHAR, key_names VARCHAR[], series_count BIGINT, nodes BIGINT,
    raw_from_us BIGINT, retracted BIGINT, unchecked BIGINT
);
COMMENT ON TABLE streams IS 'One row per published stream.';
COMMENT ON COLUMN streams.stream_id IS 'Number of the stream inside this version.';
COMMENT ON COLUMN streams.stream IS 'Name as configured.';
COMMENT ON COLUMN streams.definition IS 'Levels, groupings and measures that its rollups were built with.';
COMMENT ON COLUMN streams.newest_us IS 'Newest event time accepted: the stream''s now. Null without rows.';
COMMENT ON COLUMN streams.earliest_us IS 'Oldest event time ever accepted. Null without rows.';
COMMENT ON COLUMN streams.batch IS 'Last ingest batch contained.';
COMMENT ON COLUMN streams.latest_us IS 'How late a row may be before answers of its time were called final.';
COMMENT ON COLUMN streams.raw_path IS 'Folder of its raw rows below the home, for exact answers while they are kept.';
COMMENT ON COLUMN streams.key_names IS 'Every key that some grouping holds.';
COMMENT ON COLUMN streams.series_count IS 'Series over all groupings.';
COMMENT ON COLUMN streams.nodes IS 'Rows of this stream in nodes.';
COMMENT ON COLUMN streams.raw_from_us IS 'Since when all raw rows are kept; null when none was dropped for its age.';
COMMENT ON COLUMN streams.retracted IS 'Accepted rows that were taken back out.';
COMMENT ON COLUMN streams.unchecked IS 'Rows that came after raw rows of their time had gone: no repeat was looked for.';

CREATE TABLE measures (
    stream VARCHAR, measure VARCHAR, type VARCHAR, decimals INTEGER, slot_base BIGINT, is_counter BOOLEAN
);
COMMENT ON TABLE measures IS 'One row per stream and measure; measure * counts rows.';
COMMENT ON COLUMN measures.stream IS 'Stream.';
COMMENT ON COLUMN measures.measure IS 'Measure, or * for the rows themselves.';
COMMENT ON COLUMN measures.type IS 'int, decimal, double, or rows for *.';
COMMENT ON COLUMN measures.decimals IS 'Digits after the point of its exact sums; null for a double, whose sums are rounded.';
COMMENT ON COLUMN measures.slot_base IS 'First slot of its nodes.';
COMMENT ON COLUMN measures.is_counter IS 'A reading that only grows but for resets: range_increase answers it.';

CREATE TABLE levels (
    stream VARCHAR, level INTEGER, width VARCHAR, keep VARCHAR, width_us BIGINT, keep_us BIGINT, horizon_us BIGINT,
    nodes BIGINT, from_us BIGINT, to_us BIGINT, entered BIGINT
);
COMMENT ON TABLE levels IS 'One row per stream and level, finest first.';
COMMENT ON COLUMN levels.stream IS 'Stream.';
COMMENT ON COLUMN levels.level IS 'Number of the level, 1 is the finest.';
COMMENT ON COLUMN levels.width IS 'Width of a node, as text.';
COMMENT ON COLUMN levels.keep IS 'How much of the past it keeps, as text.';
COMMENT ON COLUMN levels.width_us IS 'Width of a node, microseconds.';
COMMENT ON COLUMN levels.keep_us IS 'How much of the past it keeps, microseconds; null keeps everything.';
COMMENT ON COLUMN levels.horizon_us IS 'It holds the nodes that start here or later; null without limit.';
COMMENT ON COLUMN levels.nodes IS 'Nodes of all groupings and series, whatever their measures.';
COMMENT ON COLUMN levels.from_us IS 'Start of its oldest node.';
COMMENT ON COLUMN levels.to_us IS 'End of its newest node.';
COMMENT ON COLUMN levels.entered IS 'Rows that came when this was the finest level that kept their time; null where it was not counted.';

CREATE TABLE series (
    stream_id INTEGER, "grouping" INTEGER, grouping_id BIGINT, series_rank BIGINT, key MAP(VARCHAR, VARCHAR), key_values VARCHAR[],
    lookup VARCHAR
);
COMMENT ON TABLE series IS 'One row per stream, grouping and combination of its keys'' values.';
COMMENT ON COLUMN series.stream_id IS 'Stream, see streams.';
COMMENT ON COLUMN series."grouping" IS 'Place of the grouping among those of the stream, from 0.';
COMMENT ON COLUMN series.grouping_id IS 'Number of stream and grouping together.';
COMMENT ON COLUMN series.series_rank IS 'Number of the series inside its stream, from 0, sorted by grouping and lookup.';
COMMENT ON COLUMN series.key IS 'Key names with their values as text; null where the row had none.';
COMMENT ON COLUMN series.key_values IS 'The values alone, in the grouping''s order.';
COMMENT ON COLUMN series.lookup IS 'The values as one text that sorts, to find a series among millions; see lookup_of.';

CREATE TABLE nodes (
    slot BIGINT, parent_us BIGINT, start_us BIGINT, n BIGINT, total DOUBLE, exact_total BIGINT, wide_total HUGEINT,
    lowest DOUBLE, highest DOUBLE, magnitude DOUBLE, first_us BIGINT, last_us BIGINT
);
COMMENT ON TABLE nodes IS 'One row per measure, level, series and node that holds a value; sorted by slot and start.';
COMMENT ON COLUMN nodes.slot IS 'slot_base of the measure + (level - 1) * series_count + series_rank.';
COMMENT ON COLUMN nodes.parent_us IS 'Start of the next coarser level''s node around it; -2^62 at the top.';
COMMENT ON COLUMN nodes.start_us IS 'Start of the node, aligned to its level''s width.';
COMMENT ON COLUMN nodes.n IS 'Values in the node; rows for measure *.';
COMMENT ON COLUMN nodes.total IS 'Their sum; for exact measures in units of the last digit.';
COMMENT ON COLUMN nodes.exact_total IS 'Their exact sum in units of the last digit; null for doubles, and where wide_total has it.';
COMMENT ON COLUMN nodes.wide_total IS 'The exact sum where 64 bits do not hold it, else null; a HUGEINT is 50 times slower to read.';
COMMENT ON COLUMN nodes.lowest IS 'Smallest value; for exact measures in units of the last digit.';
COMMENT ON COLUMN nodes.highest IS 'Largest value; for exact measures in units of the last digit.';
COMMENT ON COLUMN nodes.magnitude IS 'n * max(|lowest|, |highest|): no sum of its values'' sizes is larger.';
COMMENT ON COLUMN nodes.first_us IS 'Event time of the first value.';
COMMENT ON COLUMN nodes.last_us IS 'Event time of the last value.';

CREATE TABLE counter_nodes (
    slot BIGINT, parent_us BIGINT, start_us BIGINT, n BIGINT, first_us BIGINT, last_us BIGINT, first_reading DOUBLE,
    last_reading DOUBLE, highest DOUBLE, drops_low DOUBLE, drops_high DOUBLE
);
COMMENT ON TABLE counter_nodes IS 'What a counter''s nodes hold beside nodes: one row per meter, level and node; sorted alike.';
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

CREATE TABLE ladder (
    stream VARCHAR, measure VARCHAR, level INTEGER, first_slot BIGINT, width_us BIGINT, parent_width_us BIGINT,
    finer_us BIGINT, is_exact BOOLEAN, divisor DOUBLE, newest_us BIGINT, final_before_us BIGINT, earliest_us BIGINT,
    kept_us BIGINT, is_counter BOOLEAN, groupings STRUCT(id BIGINT, key_names VARCHAR[], is_meter BOOLEAN)[], declared VARCHAR
);
COMMENT ON TABLE ladder IS 'One row per stream, measure and level: all that a range macro must know before it reads nodes.';
COMMENT ON COLUMN ladder.stream IS 'Stream.';
COMMENT ON COLUMN ladder.measure IS 'Measure, or *.';
COMMENT ON COLUMN ladder.level IS 'Level, 1 is the finest.';
COMMENT ON COLUMN ladder.first_slot IS 'Slot of the stream''s first series at this level.';
COMMENT ON COLUMN ladder.width_us IS 'Width of a node.';
COMMENT ON COLUMN ladder.parent_width_us IS 'Width of the next coarser level''s nodes; 0 at the top.';
COMMENT ON COLUMN ladder.finer_us IS 'Nodes that start before this have no children: the finer level''s horizon.';
COMMENT ON COLUMN ladder.is_exact IS 'Sums are exact whole numbers of the last digit.';
COMMENT ON COLUMN ladder.divisor IS '10^decimals; 1 for doubles and rows.';
COMMENT ON COLUMN ladder.newest_us IS 'As in streams.';
COMMENT ON COLUMN ladder.final_before_us IS 'Answers that end here or earlier are final: newest_us - latest_us.';
COMMENT ON COLUMN ladder.earliest_us IS 'As in streams.';
COMMENT ON COLUMN ladder.kept_us IS 'Where the coarsest level begins; older rows are in no node.';
COMMENT ON COLUMN ladder.is_counter IS 'As in measures.';
COMMENT ON COLUMN ladder.groupings IS 'Declared groupings, fewest keys first; id as in series; is_meter: holds all keys.';
COMMENT ON COLUMN ladder.declared IS 'The groupings'' keys as text.';

CREATE TABLE quarantine (stream VARCHAR, reason VARCHAR, records BIGINT);
COMMENT ON TABLE quarantine IS 'One row per stream and reason: records that wait in quarantine.';
COMMENT ON COLUMN quarantine.stream IS 'Stream.';
COMMENT ON COLUMN quarantine.reason IS 'Short code of what was wrong.';
COMMENT ON COLUMN quarantine.records IS 'How many.';
