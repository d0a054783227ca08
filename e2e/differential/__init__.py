"""Our solver against Kubernetes' own allocator; the solutions of ours before the checker."""
