"""The CEL function libraries. Each module declares types, implementations and costs."""
