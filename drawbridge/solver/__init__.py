"""Allocates devices to the claims of a pod as upstream does, or explains why it cannot."""
