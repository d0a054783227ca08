"""What `explain` reads and prints about pods, nodes and devices."""
