"""Compute the facts of a cluster: the aggregates that decide how pods are translated."""
