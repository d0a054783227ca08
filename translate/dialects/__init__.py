"""Dialects: one file for each way of asking for devices without DRA.

Each has `NAME`, `read(pod, legacy)`, which returns nothing where the dialect does not speak, and
`DOMAINS`: those of the resources without which it never speaks, or None where it may all the same.
"""
