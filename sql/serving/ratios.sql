-- Scalar macros for the interval of an average: the largest (s0 + sum s) / (n0 + sum k) over one pair per cut node.
--
-- Purpose:    excess(x) = s0 - x*n0 + sum max(s - x*k) falls and is convex; its root is the answer. Dinkelbach's steps
--             climb to it from below and meet it; were they to stop short, the chord from there to `ceiling`, where
--             excess <= 0, crosses zero above the root. So what comes back is never too small.
-- Parameters: n, s, m, top, k_lo, k_hi   a cut node: rows, sum, smallest, largest, how many can be inside
--             cuts                       list of the cut nodes' lists of {k, high, low}
--             nodes                      list of lists of {k, s}
--             s0, n0                     sum and count of the rows that are certainly inside
--             slack                      what rounding can do to excess
-- Usage:      see range_avg.sql

-- The sum of the k rows is piecewise linear in k: its ends and the whole numbers around both bends suffice.
CREATE MACRO cut_sums(n, s, m, top, k_lo, k_hi) AS list_transform(
    list_distinct(list_transform(
        [k_lo, k_hi, floor((s - n * m) / (top - m)), ceil((s - n * m) / (top - m)),
            floor((n * top - s) / (top - m)), ceil((n * top - s) / (top - m))],
        lambda k: least(greatest(k, k_lo), k_hi))),
    lambda k: {k: k, high: least(k * top, s - (n - k) * m), low: greatest(k * m, s - (n - k) * top)}
);

CREATE MACRO uppers(cuts) AS list_transform(cuts, lambda cut: list_transform(cut, lambda c: {k: c.k, s: c.high}));

CREATE MACRO mirrored(cuts) AS list_transform(cuts, lambda cut: list_transform(cut, lambda c: {k: c.k, s: -c.low}));

CREATE MACRO best_at(nodes, x) AS list_transform(
    nodes,
    lambda node: list_max(list_transform(node, lambda c: {excess: c.s - x * c.k, k: c.k, s: c.s}))
);

CREATE MACRO excess(s0, n0, nodes, x) AS
    s0 - x * n0 + list_sum(list_transform(best_at(nodes, x), lambda c: c.excess));

CREATE MACRO ratio(s0, n0, best) AS
    (s0 + list_sum(list_transform(best, lambda c: c.s))) / nullif(n0 + list_sum(list_transform(best, lambda c: c.k)), 0);

CREATE MACRO climbed(s0, n0, nodes, bottom) AS list_reduce(
    [bottom, bottom, bottom, bottom, bottom, bottom, bottom, bottom, bottom, bottom],
    lambda x, step: greatest(x, list_transform([best_at(nodes, x)], lambda best: ratio(s0, n0, best))[1])
);

CREATE MACRO root_above(x, at_x, ceiling, at_ceiling, slack) AS
    CASE WHEN at_x <= slack OR ceiling <= x OR at_x <= at_ceiling THEN x
    ELSE least(ceiling, x + (ceiling - x) * (at_x / (at_x - at_ceiling))) END;

-- One ratio for each of several problems; setting up the steps once for all costs half as much.
CREATE MACRO largest_ratios(problems, n0, slack) AS list_transform(
    list_transform(problems, lambda one: {one: one, x: climbed(one.s0, n0, one.nodes, one.bottom)}),
    lambda met: root_above(
        met.x, excess(met.one.s0, n0, met.one.nodes, met.x), met.one.ceiling,
        excess(met.one.s0, n0, met.one.nodes, met.one.ceiling), slack
    )
);
