"""Dialects: one file for each way of asking for devices without DRA.

Each has `NAME`, `read(pod, legacy)`, which returns nothing where the dialect does not speak, and
`CALLED_BY`: the resources, annotations, labels, domains of these, and schedulers without any of
which it never speaks.
"""
