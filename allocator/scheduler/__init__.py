"""What the allocator and the scheduler plugin say to each other."""
