-- Tables of one segment: nodes and series that versions share, or that a version holds itself.
--
-- Purpose:    a version reads the nodes of a few segments, of which a newer one replaces nodes of older ones.
-- Parameters: none; the publisher fills them once, sorted, afterwards they never change.
-- Usage:      read the views nodes, counter_nodes and series instead, see node_views.sql.

CREATE SCHEMA segment;

CREATE TABLE segment.series (
    stream_id INTEGER, "grouping" INTEGER, grouping_id BIGINT, series_rank BIGINT, key MAP(VARCHAR, VARCHAR), key_values VARCHAR[],
    lookup VARCHAR
);
COMMENT ON TABLE segment.series IS 'One row per stream, grouping and combination of its keys'' values.';

CREATE TABLE segment.nodes (
    slot BIGINT, parent_us BIGINT, start_us BIGINT, n BIGINT, total DOUBLE, carry DOUBLE, exact_total BIGINT,
    wide_total HUGEINT, lowest DOUBLE, highest DOUBLE, magnitude DOUBLE, first_us BIGINT, last_us BIGINT
);
COMMENT ON TABLE segment.nodes IS 'One row per measure, level, series and node that holds a value; sorted by slot and start. One without values: the node of an older segment is gone.';

CREATE TABLE segment.counter_nodes (
    slot BIGINT, parent_us BIGINT, start_us BIGINT, n BIGINT, first_us BIGINT, last_us BIGINT, first_reading DOUBLE,
    last_reading DOUBLE, highest DOUBLE, drops_low DOUBLE, drops_high DOUBLE
);
COMMENT ON TABLE segment.counter_nodes IS 'What a counter''s nodes hold beside nodes: one row per meter, level and node; sorted alike.';
