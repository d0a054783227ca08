"""Verifies a release with the programs that its users have: cosign, oras and helm."""
