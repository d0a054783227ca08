"""What the allocator writes to the API server, and how it recovers what was interrupted."""
