"""Translates pods from device plugins to DRA. Pure.

`legacy` reads the device requests (asks) of a pod. `decisions` decides about each ask. `targets`
writes claim specs. `changes` composes the patch. `manifests` translates objects of any kind.
"""
