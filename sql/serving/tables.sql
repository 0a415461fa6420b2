-- Tables of one published version.
--
-- Purpose:    what the range macros read (nodes, series, ladder) and what people and `tidemark status` read.
-- Parameters: none; the publisher fills them once, afterwards the file never changes.
-- Usage:      SELECT table_name, comment FROM duckdb_tables();

-- One row: this version.
CREATE TABLE publication (
    version INTEGER, published_us BIGINT, fingerprint VARCHAR, catalog VARCHAR, anew_us BIGINT
);
COMMENT ON TABLE publication IS 'One row: this version of the published file.';
COMMENT ON COLUMN publication.version IS 'Counts up by one with every publish that changed something.';
COMMENT ON COLUMN publication.published_us IS 'When it was written, microseconds since the epoch, UTC.';
COMMENT ON COLUMN publication.fingerprint IS 'Hash of everything it was made from; the same again makes no new version.';
COMMENT ON COLUMN publication.anew_us IS 'When all of its nodes and rows were last made anew, microseconds since the epoch, UTC; versions since share some.';
COMMENT ON COLUMN publication.catalog IS 'Every stream.measure that can be asked for.';

CREATE TABLE streams (
    stream_id INTEGER, stream VARCHAR, definition VARCHAR, newest_us BIGINT, confirmed_us BIGINT, earliest_us BIGINT, batch BIGINT,
    latest_us BIGINT, raw_path VARCHAR, key_names VARCHAR[], series_count BIGINT, nodes BIGINT,
    raw_from_us BIGINT, retracted BIGINT, unchecked BIGINT, timezone VARCHAR, basis VARCHAR, rebuilt BIGINT
);
COMMENT ON TABLE streams IS 'One row per published stream.';
COMMENT ON COLUMN streams.stream_id IS 'Number of the stream; it gets another one when all of its nodes are made anew.';
COMMENT ON COLUMN streams.stream IS 'Name as configured.';
COMMENT ON COLUMN streams.definition IS 'Levels, groupings and measures that its rollups were built with.';
COMMENT ON COLUMN streams.newest_us IS 'Newest event time accepted. Null without rows.';
COMMENT ON COLUMN streams.confirmed_us IS 'Newest event time confirmed: the stream''s now. Null without rows.';
COMMENT ON COLUMN streams.earliest_us IS 'Oldest event time ever accepted. Null without rows.';
COMMENT ON COLUMN streams.batch IS 'Last ingest batch contained.';
COMMENT ON COLUMN streams.latest_us IS 'How late a row may be before answers of its time were called final.';
COMMENT ON COLUMN streams.raw_path IS 'Folder of its raw rows below the home, for exact answers while they are kept.';
COMMENT ON COLUMN streams.key_names IS 'Every key that some grouping holds.';
COMMENT ON COLUMN streams.series_count IS 'Series over all groupings.';
COMMENT ON COLUMN streams.nodes IS 'Rows of this stream in nodes.';
COMMENT ON COLUMN streams.raw_from_us IS 'Since when all raw rows are kept; null when none was dropped for its age.';
COMMENT ON COLUMN streams.retracted IS 'Accepted rows that were taken back out.';
COMMENT ON COLUMN streams.rebuilt IS 'Last correction that changed nodes: twice its number, and one more if it was done.';
COMMENT ON COLUMN streams.basis IS 'Hash of what all of its nodes depend on; the next version shares nodes while it stays.';
COMMENT ON COLUMN streams.unchecked IS 'Rows older than identities were known for when they came: they may repeat others.';
COMMENT ON COLUMN streams.timezone IS 'Zone by whose clocks event times without an offset are read.';

CREATE TABLE withheld (stream VARCHAR, since_us BIGINT, because VARCHAR, published_batch BIGINT, queries VARCHAR[]);
COMMENT ON TABLE withheld IS 'One row per stream whose newest state is not published, because it has not passed the checks.';
COMMENT ON COLUMN withheld.stream IS 'Stream; its last published state is in this version, if it has any.';
COMMENT ON COLUMN withheld.since_us IS 'When it was first withheld, microseconds since the epoch, UTC.';
COMMENT ON COLUMN withheld.because IS 'Rules that do not hold, with what was observed.';
COMMENT ON COLUMN withheld.published_batch IS 'Last ingest batch of its published state; null if it was never published.';
COMMENT ON COLUMN withheld.queries IS 'Registered queries that read it: their results also hold its rows that are withheld here.';

CREATE TABLE measures (
    stream VARCHAR, measure VARCHAR, type VARCHAR, decimals INTEGER, slot_base BIGINT, is_counter BOOLEAN,
    default_agg VARCHAR
);
COMMENT ON TABLE measures IS 'One row per stream and measure; measure * counts rows.';
COMMENT ON COLUMN measures.stream IS 'Stream.';
COMMENT ON COLUMN measures.measure IS 'Measure, or * for the rows themselves.';
COMMENT ON COLUMN measures.type IS 'int, decimal, double, or rows for *.';
COMMENT ON COLUMN measures.decimals IS 'Digits after the point of its exact sums; null for a double, whose sums are rounded.';
COMMENT ON COLUMN measures.slot_base IS 'First slot of its nodes.';
COMMENT ON COLUMN measures.is_counter IS 'A reading that only grows but for resets: range_increase answers it.';
COMMENT ON COLUMN measures.default_agg IS 'What is asked for where no aggregate is given: increase of a counter, sum where declared, else avg; count of *.';

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

CREATE TABLE ladder (
    stream VARCHAR, measure VARCHAR, level INTEGER, first_slot BIGINT, width_us BIGINT, parent_width_us BIGINT,
    finer_us BIGINT, horizon_us BIGINT, is_exact BOOLEAN, divisor DOUBLE, newest_us BIGINT, final_before_us BIGINT, earliest_us BIGINT,
    kept_us BIGINT, is_counter BOOLEAN, groupings STRUCT(
        id BIGINT, key_names VARCHAR[], is_meter BOOLEAN, refined_by BIGINT, refined_series BIGINT, refined_rows BIGINT
    )[], declared VARCHAR, unchecked STRUCT(
        from_us BIGINT, to_us BIGINT, n BIGINT, below DOUBLE, above DOUBLE, least DOUBLE, greatest DOUBLE
    )[], ambiguous STRUCT(
        from_us BIGINT, to_us BIGINT, n BIGINT, below DOUBLE, above DOUBLE, least DOUBLE, greatest DOUBLE
    )[]
);
COMMENT ON TABLE ladder IS 'One row per stream, measure and level: all that a range macro must know before it reads nodes.';
COMMENT ON COLUMN ladder.stream IS 'Stream.';
COMMENT ON COLUMN ladder.measure IS 'Measure, or *.';
COMMENT ON COLUMN ladder.level IS 'Level, 1 is the finest.';
COMMENT ON COLUMN ladder.first_slot IS 'Slot of the stream''s first series at this level.';
COMMENT ON COLUMN ladder.width_us IS 'Width of a node.';
COMMENT ON COLUMN ladder.parent_width_us IS 'Width of the next coarser level''s nodes; 0 at the top.';
COMMENT ON COLUMN ladder.finer_us IS 'Nodes that start before this have no children: the finer level''s horizon.';
COMMENT ON COLUMN ladder.horizon_us IS 'Nodes that start before this are kept no longer; -2^62 without limit.';
COMMENT ON COLUMN ladder.is_exact IS 'Sums are exact whole numbers of the last digit.';
COMMENT ON COLUMN ladder.divisor IS '10^decimals; 1 for doubles and rows.';
COMMENT ON COLUMN ladder.newest_us IS 'As in streams.';
COMMENT ON COLUMN ladder.final_before_us IS 'Answers that end here or earlier are final: newest_us - latest_us.';
COMMENT ON COLUMN ladder.earliest_us IS 'As in streams.';
COMMENT ON COLUMN ladder.kept_us IS 'Where the coarsest level begins; older rows are in no node.';
COMMENT ON COLUMN ladder.is_counter IS 'As in measures.';
COMMENT ON COLUMN ladder.groupings IS 'Declared groupings, fewest keys first; id as in series; is_meter: holds all keys; refined_by: id of the grouping whose nodes replace a cut node of at most refined_rows rows, of refined_series series, null for none.';
COMMENT ON COLUMN ladder.declared IS 'The groupings'' keys as text.';
COMMENT ON COLUMN ladder.unchecked IS 'Rows with a value between two times, both included, that may repeat others: how many, their sums below and above zero, their ends.';
COMMENT ON COLUMN ladder.ambiguous IS 'The same of rejected rows whose local time comes twice, from the first of its moments to the second.';

CREATE TABLE quarantine (stream VARCHAR, reason VARCHAR, records BIGINT, closed BIGINT);
COMMENT ON TABLE quarantine IS 'One row per stream and reason: rejected records, open and closed.';
COMMENT ON COLUMN quarantine.stream IS 'Stream.';
COMMENT ON COLUMN quarantine.reason IS 'Short code of what was wrong.';
COMMENT ON COLUMN quarantine.records IS 'Open records: no requeue has taken them.';
COMMENT ON COLUMN quarantine.closed IS 'Records that a requeue has taken; one that was rejected again counts again.';

CREATE TABLE segments (segment VARCHAR, block BIGINT, nodes BIGINT, first_us BIGINT, last_us BIGINT);
COMMENT ON TABLE segments IS 'One row per segment and block of 2^32 slots, a measure''s level: what is stored, superseded nodes too.';
COMMENT ON COLUMN segments.segment IS 'Name of the file of the segment; empty for what this file holds itself.';
COMMENT ON COLUMN segments.block IS 'Slots from block * 2^32 on.';
COMMENT ON COLUMN segments.nodes IS 'Nodes stored.';
COMMENT ON COLUMN segments.first_us IS 'Earliest start of a node.';
COMMENT ON COLUMN segments.last_us IS 'Latest start of a node.';

CREATE TABLE node_counts (
    stream_id INTEGER, level INTEGER, bucket_us BIGINT, nodes BIGINT, stored BIGINT, first_us BIGINT, last_us BIGINT
);
COMMENT ON TABLE node_counts IS 'One row per stream, level and parent: how many nodes there are, kept up by every publish.';
COMMENT ON COLUMN node_counts.stream_id IS 'Stream, see streams.';
COMMENT ON COLUMN node_counts.level IS 'Level, 1 is the finest.';
COMMENT ON COLUMN node_counts.bucket_us IS 'parent_us of the nodes; their start at a top level that forgets; -2^62 at one that does not.';
COMMENT ON COLUMN node_counts.nodes IS 'Nodes of all groupings and series, whatever their measures.';
COMMENT ON COLUMN node_counts.stored IS 'Rows in nodes: one for each measure that has values.';
COMMENT ON COLUMN node_counts.first_us IS 'Start of the oldest node.';
COMMENT ON COLUMN node_counts.last_us IS 'Start of the newest node.';

-- Key values as one text that sorts as they do; a missing value is a character that no text has.
CREATE MACRO lookup_of(key_values) AS
    list_aggregate(list_transform(key_values, lambda v: ifnull(v, chr(1)) || chr(31)), 'string_agg', '');
