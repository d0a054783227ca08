"""The changes of a translated pod: JSON patch, undo, environment, tolerations, template."""
