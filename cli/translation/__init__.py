"""What `translate` and `undo` read, edit and print."""
