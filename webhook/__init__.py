"""Admission: what the API server asks about pods and workloads, and what we answer.

A shell around `translate`; what it needs of the cluster it states as protocols.
"""
