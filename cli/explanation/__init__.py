"""What `explain` reads."""
