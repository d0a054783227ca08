"""Builds, signs and verifies a release: images and chart as OCI artifacts, with attestations."""
