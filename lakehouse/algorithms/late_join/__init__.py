"""Window joins of two streams whose rows come late: at least the recall asked for at once, every pair after repair.

Called by lakehouse/queries/pairs: rows.py places rows in buckets, bucket.py runs ``QJoin`` with the policy that the
query names, repair.py ``missing_pairs``; checks, publish and completeness judge periods.

contract.py             what goes in and out: Batch, Pairs, Log, Outcome, Snapshot
conditions.py           what joins: Equality, Band, Distance, Comparison
probing.py              a condition as kernels read it: cells to look in, the check itself
qjoin.py                QJoin: the symmetric join with horizons that only grow, and the log of what may be missing
policy.py               what sets the slack of each side: the protocol of policies
policy_needed_slack.py  ours: counts the slack that each pair needed
margin.py               how much of the allowed loss may be used
spare.py                what slack costs too little to be saved
policy_per_source.py    ours: waits for sources that have fallen silent, beside the slack that pairs needed
sources.py              the sources that are watched, and what is known of each
policy_paper.py         the paper's model of recall, both readings of its largest delay
slack_grid.py           the slacks that are tried, and their bins
arrival_counts.py       how many rows of each side came for each moment
repair.py               the pairs that the online join missed, from its log
audit.py                recall of every period, once it is known
bucketing.py            which rows meet in which bucket, so that every pair is found in one

probing.py, qjoin_kernels.py, clock_kernels.py, ring_kernels.py, needed_slack_kernels.py, source_kernels.py,
paper_kernels.py and repair_kernels.py are the compiled loops.
"""
