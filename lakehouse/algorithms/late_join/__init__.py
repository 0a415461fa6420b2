"""Window joins of two streams whose rows come late: at least the recall asked for at once, every pair after repair.

Called by lakehouse/queries/pairs: rows.py places rows in buckets, bucket.py runs ``QJoin`` with the policy that the
query names, repair.py ``missing_pairs``; checks, publish and completeness judge periods.

contract.py             input and output: Batch, Pairs, Log, Outcome
conditions.py           conditions: Equality, Band, Distance, Comparison
probing.py              a condition in the form of kernels: cells to search, the check itself
qjoin.py                QJoin: the symmetric join with horizons that only grow, and the log of late rows
policy.py               the protocol of policies, which choose the slack of each side
policy_needed_slack.py  ours: counts the slack that each pair needed
margin.py               the share of the allowed loss that may be used
spare.py                spare rows: slack that is too cheap to save
policy_per_source.py    ours: waits for sources that have fallen silent, beside the slack that pairs needed
sources.py              the watched sources, and the state of each
policy_paper.py         the paper's model of recall, both readings of its largest delay
slack_grid.py           the candidate slacks, and their bins
arrival_counts.py       counts of rows of each side per moment
repair.py               the pairs that the online join missed, from its log
audit.py                recall of every period, once it is known
bucketing.py            the bucket in which rows meet, so that every pair is found in one

probing.py ... conditions as compiled loops read them; kernels/: the compiled loops.
"""
