"""Window joins of two streams whose rows come late: at least the recall asked for at once, every pair after repair.

contract.py             what goes in and out: Batch, Pairs, Log, Outcome, Snapshot, and the LateJoin protocol
conditions.py           what joins: Equality, Band, Distance, Comparison
probing.py              a condition as kernels read it: cells to look in, the check itself
nested_loop.py          yardstick: keep every row, look at all of them; the repair by its definition
qjoin.py                QJoin: the symmetric join with horizons that only grow, and the log of what may be missing
k_slack.py              KSlack: the baseline that waits; K the largest delay so far, or chosen for a recall
policy.py               what sets the slack of each side, and the slack that never changes
policy_needed_slack.py  ours: counts the slack that each pair needed
policy_paper.py         the paper's model of recall, both readings of its largest delay
slack_grid.py           the slacks that are tried, and their bins
arrival_counts.py       how many rows of each side came for each moment
repair.py               the pairs that the online join missed, from its log
audit.py                recall of every period, once it is known
bucketing.py            which rows meet in which bucket, so that every pair is found in one

qjoin_kernels.py, k_slack_kernels.py, needed_slack_kernels.py, paper_kernels.py and repair_kernels.py are the compiled
loops.
"""
