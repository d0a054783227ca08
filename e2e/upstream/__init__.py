"""Runs suites of Kubernetes' own repository against Drawbridge, from the pinned Go module."""
