"""Builds the container image from locked Debian packages and wheels, without a container engine."""
