"""The same scenarios on a kind cluster, for machines with a container engine."""
