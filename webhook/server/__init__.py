"""The webhook process: HTTP handler, cluster view, and template store."""
