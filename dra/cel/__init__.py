"""The Common Expression Language as Kubernetes speaks it: parse, check, estimate, evaluate."""
