"""Runs Drawbridge on real Kubernetes. Rigs and checkers import no product package."""
