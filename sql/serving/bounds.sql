-- Scalar macros for the guaranteed interval of a cut node: n rows with sum s, values in [m, M], k of them inside.
--
-- Purpose:    the sum of the k rows lies in [max(k*m, s - (n-k)*M), min(k*M, s - (n-k)*m)]. Both ends are piecewise
--             linear in k, so only k_lo, k_hi and the whole numbers around the bend can be extremes.
-- Parameters: n, s, m, top         the node; `top` is M
--             k_lo, k_hi           how few and how many of its rows can be inside
--             s0, n0               sum and count of the rows that are certainly inside
--             nodes                list of the cut nodes' lists of {s, k}
-- Usage:      SELECT list_max(list_transform(upper_candidates(10, 7.0, 0.0, 1.0, 0, 10), lambda c: c.s));

CREATE MACRO clamped(x, lo, hi) AS least(greatest(x, lo), hi);

CREATE MACRO bend(n, gap, spread, k_lo, k_hi) AS
    CASE WHEN spread > 0 THEN [
        k_lo, k_hi,
        CAST(clamped(floor(gap / spread), k_lo, k_hi) AS BIGINT),
        CAST(clamped(ceil(gap / spread), k_lo, k_hi) AS BIGINT)]
    ELSE [k_lo, k_hi] END;

CREATE MACRO upper_candidates(n, s, m, top, k_lo, k_hi) AS list_transform(
    bend(n, s - n * m, top - m, k_lo, k_hi),
    lambda k: {s: least(k * top, s - (n - k) * m), k: k}
);

CREATE MACRO lower_candidates(n, s, m, top, k_lo, k_hi) AS list_transform(
    bend(n, n * top - s, top - m, k_lo, k_hi),
    lambda k: {s: greatest(k * m, s - (n - k) * top), k: k}
);

-- Largest (s0 + sum s) / (n0 + sum k) over one candidate per node. The root of the falling convex function
-- excess(x) = s0 - x*n0 + sum max(s - x*k): Dinkelbach's steps come from below and meet it; were they to stop short,
-- the chord to `ceiling`, where excess <= 0, lies above the root.
CREATE MACRO best_at(nodes, x) AS list_transform(
    nodes,
    lambda node: list_max(list_transform(node, lambda c: {excess: c.s - x * c.k, k: c.k, s: c.s}))
);

CREATE MACRO excess(s0, n0, nodes, x) AS
    s0 - x * n0 + coalesce(list_sum(list_transform(best_at(nodes, x), lambda c: c.excess)), 0);

CREATE MACRO ratio(s0, n0, best, otherwise) AS
    CASE WHEN n0 + coalesce(list_sum(list_transform(best, lambda c: c.k)), 0) > 0
    THEN (s0 + coalesce(list_sum(list_transform(best, lambda c: c.s)), 0))
        / (n0 + coalesce(list_sum(list_transform(best, lambda c: c.k)), 0))
    ELSE otherwise END;

CREATE MACRO climbed(s0, n0, nodes, bottom) AS list_reduce(
    [bottom, bottom, bottom, bottom, bottom, bottom, bottom, bottom, bottom, bottom],
    lambda x, step: greatest(x, ratio(s0, n0, best_at(nodes, x), x))
);

CREATE MACRO root_above(x, at_x, ceiling, at_ceiling, slack) AS
    CASE WHEN at_x <= slack OR ceiling <= x OR at_x <= at_ceiling THEN x
    ELSE least(ceiling, x + (ceiling - x) * (at_x / (at_x - at_ceiling))) END;

CREATE MACRO largest_ratio(s0, n0, nodes, bottom, ceiling, slack) AS list_transform(
    [climbed(s0, n0, nodes, bottom)],
    lambda x: root_above(x, excess(s0, n0, nodes, x), ceiling, excess(s0, n0, nodes, ceiling), slack)
)[1];

CREATE MACRO negated(nodes) AS list_transform(nodes, lambda node: list_transform(node, lambda c: {s: -c.s, k: c.k}));
