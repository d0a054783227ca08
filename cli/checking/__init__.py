"""What `check`, `lint` and `cel` compare objects with."""
