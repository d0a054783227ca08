"""A real control plane, built from pinned Go modules and run on loopback."""
