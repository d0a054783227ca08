"""Whether any node can ever satisfy claims, and why not."""
