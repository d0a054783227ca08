"""What all processes must agree on.

The scope decision, match conditions, which objects are ours, published facts, and the assembled
finding codes. Pure.
"""
