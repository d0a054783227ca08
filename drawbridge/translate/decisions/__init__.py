"""Decides for each ask of a pod: translate it, leave it, or refuse it."""
