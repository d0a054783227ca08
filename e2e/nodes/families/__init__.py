"""Driver families: what each publishes of a machine, and what it accepts as configuration."""
