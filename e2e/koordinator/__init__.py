"""Compares what Drawbridge gives pods with Koordinator's hints with what the hints mean."""
