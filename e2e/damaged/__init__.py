"""Damaged reviews and requests for a webhook that must survive them all, and say the right thing.

Imports nothing of ours but the process it starts.
"""
