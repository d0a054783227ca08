"""Runs pairs of a kube-scheduler with Drawbridge's plugin and the allocator beside it."""
