"""What every process shares: TLS listener, review decoding, settings, logs, metrics, shutdown."""
