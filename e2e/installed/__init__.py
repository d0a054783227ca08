"""Drawbridge on a rig, installed by its own manifests and run as its Deployments say."""
