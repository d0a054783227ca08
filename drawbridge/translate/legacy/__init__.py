"""Reads the device requests of pods in the legacy dialects.

Does not depend on DRA, CEL or targets.
"""
