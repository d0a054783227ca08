"""Asks to claim specs, one module per driver family; the only place that writes CEL."""
