"""Drawbridge against the real Kubernetes; rigs and checkers import nothing of ours."""
