"""Text that describes clusters, placements and pods. Pure."""
