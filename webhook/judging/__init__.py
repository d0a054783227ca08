"""Answer reviews of claims, templates, classes, and what refers to claims.

Bytes in, bytes out. `webhook.server` runs it as the process `drawbridge serve judge`.
"""
