"""Composes the changes of a translated pod: patch, undo, environment, tolerations, template."""
