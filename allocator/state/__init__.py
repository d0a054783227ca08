"""What the allocator remembers: devices, claims, pods, reservations."""
