"""Dialects: one module for each way to request devices without DRA.

Each module has `NAME`, `read(pod, legacy)` and `TRIGGERS`. `read` returns `NO_REQUESTS` for a pod
without requests in the dialect. `TRIGGERS` are scheduler names and the names or domains of
resources, annotations and labels. The dialect does not apply to a pod without any of its triggers.
"""
