"""The API server: credentials, list-watch caches, writers, lease, events.

The only room that talks to it. Knows what an object is and how it is kept; nothing of devices.
"""
