"""Dialects: one file for each way of asking for devices without DRA.

Each has `NAME` and `read(pod, legacy)`, which returns nothing where the dialect does not speak.
"""
