"""What one leader keeps in order for all: facts, templates, quota, match conditions, node labels.

A shell around `facts` and `translate`; what it needs of the cluster it states as protocols.
"""
