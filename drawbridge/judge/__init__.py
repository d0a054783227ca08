"""Finds slices, classes and claims that can never work. Pure."""
