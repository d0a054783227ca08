"""The drawbridge command: reads files, calls the pure rooms, prints."""
