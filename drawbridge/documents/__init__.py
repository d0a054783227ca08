"""Reads YAML and JSON streams with positions, safe on any bytes, and writes edits back. Pure."""
