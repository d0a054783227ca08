"""YAML and JSON streams with positions, safe on any bytes, and edits written back. Pure."""
