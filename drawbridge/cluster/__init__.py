"""Access to the API server: credentials, list-watch caches, writes, leader election, events.

This is the only package that sends requests to the API server. It does not interpret devices.
"""
