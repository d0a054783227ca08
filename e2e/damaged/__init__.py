"""Sends damaged reviews and requests to the webhook process and checks its responses.

Starts the product as a process and imports none of it.
"""
