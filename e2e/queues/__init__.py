"""Builds the manager of Kueue, to run it beside Drawbridge."""
