"""Translates manifests of public repositories, and counts what is lost in silence."""
