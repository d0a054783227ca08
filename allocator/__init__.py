"""Who holds which device, and what is remembered between two decisions."""
