"""Kueue's real manager beside Drawbridge: `python -m e2e queues`."""
