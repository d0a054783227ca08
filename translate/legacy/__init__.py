"""Pods in the legacy dialects to asks.

Knows nothing of DRA, CEL and targets.
"""
