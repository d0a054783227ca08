"""Runs the scenarios on a kind cluster, on machines with a container engine."""
