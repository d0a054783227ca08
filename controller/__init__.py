"""The controller: the reconcilers that only the leader runs, and their process.

Each reconciler states what it needs of the cluster as protocols; `process` connects them.
"""
