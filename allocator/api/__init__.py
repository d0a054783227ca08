"""The HTTP API of the allocator: who holds devices, why a pod waits, where pods would go."""
