"""Dialects: one file for each way of asking for devices without DRA.

Each has `NAME`, `read(pod, legacy)`, which returns nothing where the dialect does not speak, and
`WORDS`: the resources, annotations, labels, or domains of these, and the schedulers without any of
which it never speaks.
"""
