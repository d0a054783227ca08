"""Code that all processes share: TLS, review decoding, settings, logs, metrics, and shutdown."""
