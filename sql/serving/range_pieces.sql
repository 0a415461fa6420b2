-- Which nodes answer [a_us, b_us): a list of pieces, at most two whole runs and two cut nodes per level.
--
-- Purpose:    the walk of AAQuery without the tree. Horizons are aligned to the parent's width, so a parent has all
--             its children or none, and a level is kept at an instant exactly when the instant is not below its horizon.
-- Parameters: levels     list of {level, width_us, parent_us, horizon_us, finer_us}, coarser later; parent_us is null
--                        at the top, finer_us is the horizon of the next finer level, null at the finest
--             a_us, b_us the range, half-open
-- Usage:      SELECT unnest(range_pieces(levels, 0, 3600000000)) FROM answerable WHERE stream = 'telemetry';
--
--     level 3   |               |#######whole#######|               |      whole nodes, coarsest first
--     level 2   |       |   |###|                   |###|   |              children of the cut nodes
--     level 1   |        a>.|                           |..<b              finest kept: cut nodes, spread
--
-- A piece is {level, width_us, parent_us, lo, hi, from_us, to_us, cut}: nodes of `level` under the parent node that
-- starts at parent_us (0 at the top) with lo <= start < hi; a cut node counts only its rows in [from_us, to_us).

CREATE MACRO piece(l, lo, hi, from_us, to_us, cut) AS {
    level: l.level, width_us: l.width_us,
    parent_us: CASE WHEN l.parent_us IS NULL THEN 0 ELSE floor_to(lo, l.parent_us) END,
    lo: lo, hi: hi, from_us: from_us, to_us: to_us, cut: cut
};

-- The level holds a node boundary inside [a_us, b_us]: the ends do not lie within one of its nodes.
CREATE MACRO spans_boundary(width_us, a_us, b_us) AS ceil_to(a_us, width_us) <= floor_to(b_us, width_us);

CREATE MACRO level_pieces(l, a_us, b_us) AS
    CASE
        WHEN l.parent_us IS NOT NULL AND spans_boundary(l.parent_us, a_us, b_us) THEN [
            CASE WHEN a_us >= l.horizon_us THEN
                piece(l, ceil_to(a_us, l.width_us), ceil_to(a_us, l.parent_us), 0, 0, false) END,
            CASE WHEN b_us > l.horizon_us THEN
                piece(l, floor_to(b_us, l.parent_us), floor_to(b_us, l.width_us), 0, 0, false) END]
        WHEN a_us >= l.horizon_us OR l.parent_us IS NULL THEN [
            piece(l, greatest(ceil_to(a_us, l.width_us), l.horizon_us), floor_to(b_us, l.width_us), 0, 0, false)]
        ELSE []
    END;

CREATE MACRO cut_pieces(l, a_us, b_us) AS [
    CASE WHEN a_us >= l.horizon_us AND (l.finer_us IS NULL OR a_us < l.finer_us)
              AND floor_to(a_us, l.width_us) <> a_us THEN
        piece(l, floor_to(a_us, l.width_us), floor_to(a_us, l.width_us) + 1,
              a_us, least(b_us, ceil_to(a_us, l.width_us)), true) END,
    CASE WHEN b_us > l.horizon_us AND (l.finer_us IS NULL OR b_us <= l.finer_us)
              AND floor_to(b_us, l.width_us) <> b_us AND floor_to(b_us, l.width_us) >= a_us THEN
        piece(l, floor_to(b_us, l.width_us), floor_to(b_us, l.width_us) + 1,
              floor_to(b_us, l.width_us), b_us, true) END
];

CREATE MACRO range_pieces(levels, a_us, b_us) AS list_filter(
    flatten(list_transform(levels, lambda l: list_concat(level_pieces(l, a_us, b_us), cut_pieces(l, a_us, b_us)))),
    lambda p: p.lo < p.hi
);
