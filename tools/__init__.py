"""Checks and generators of this repository; not installed."""
