"""Which devices a pod gets, who must go for it, and when it is tried again."""
