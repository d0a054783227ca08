"""The device objects of Kubernetes and their semantics. Does no I/O, imports no other package."""
