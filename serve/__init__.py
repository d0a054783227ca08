"""Rooms put together into processes that stay: the webhook and the controller."""
