"""Builds pinned kustomize and helm, which render the manifests in tests."""
