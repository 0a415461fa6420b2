"""Scheduling of the operators of all registered queries: order, time slices, and the order of filters.

Called by lakehouse/queries/runtime/scan: ``Executor`` over Arrow batches, under ``MultiFactor`` or the policy that the
configuration names.
"""
