"""Which devices a pod gets, which pods are evicted for it, and when it is tried again."""
