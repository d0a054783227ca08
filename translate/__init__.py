"""Translates pods from device plugins to DRA. Pure.

`legacy` reads pods into asks, `decisions` decides about each ask, `targets` prints claim specs,
`changes` composes the patch, `manifests` applies all of it to objects of any kind.
"""
