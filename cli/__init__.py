"""The drawbridge command: reads files, calls the pure packages, prints."""
