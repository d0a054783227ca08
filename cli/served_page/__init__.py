"""Reads and serves the page of `drawbridge page`, on this machine only."""
