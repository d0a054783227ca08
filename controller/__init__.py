"""The controller process and its reconcilers, which only the leader runs.

Each reconciler declares what it needs of the cluster as protocols; `process` connects them.
"""
