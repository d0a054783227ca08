"""Selects devices for the pods of a kube-scheduler, and writes allocations and bindings.

`drawbridge serve allocator` runs beside a kube-scheduler with the plugin of `bridge/`.
"""
