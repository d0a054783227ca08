"""The webhook process: HTTP handler, cluster view, template store."""
