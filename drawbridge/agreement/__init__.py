"""Definitions on which all processes must agree.

Contains the scope decision, match conditions, the check which objects belong to Drawbridge,
published facts, and the assembled finding codes. Has no side effects.
"""
