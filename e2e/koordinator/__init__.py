"""Compares bridge placement with Koordinator's steps, for pods with GPUs, NICs and rules."""
