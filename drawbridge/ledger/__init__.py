"""Tracks which claims hold which devices, and keeps solver state between decisions. Pure."""
