"""Scheduling of the operators of all registered queries: order, time slices, and the order of filters.

Called by lakehouse/queries/runtime/scan: ``Executor`` over Arrow batches, under ``MultiFactor`` or the policy that the
configuration names.

contract.py         input and output: Operator, Join, Chain, Query, Statistics, Plan
policy.py           the Policy protocol, and the plan that every policy starts with
network.py          queries as arrays: which operator feeds which, and which filters may change places
measuring.py        n, S and V of an interval from counts, and from samples where no row reaches an operator
interval.py         tau: when the next plan is made, and how long it is used
flow.py             the rows that reach each operator in an order, their work; the order of filters with the least work
multifactor.py      MultiFactor: measured order, rounds, slices from the deadline
chain.py            ChainScheduling: the steepest piece of the progress chart first
policies.py         every policy by its name; Fifo: the written order; Greedy: the highest (1 - S) n first
executor.py         runs queries over batches of rows in bounded memory
operators.py        operators that can be run: Predicate
chunks.py           waiting batches, read once for all queries, counted in bytes

turns_kernels.py holds the compiled loops.
"""
