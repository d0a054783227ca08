"""Where commands read from: files, live clusters, configuration and the allocator."""
