"""What to do with each ask: translate it, leave it, or refuse it."""
