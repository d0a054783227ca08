"""Installs Drawbridge on a rig with its own manifests and the commands of its Deployments."""
