"""What `simulate` reads and prints."""
