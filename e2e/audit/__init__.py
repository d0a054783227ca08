"""Compares the rights that the manifests grant with the requests in the audit log of the rig."""
