"""Plays pods, faults and attacks against bridge placement for a long time, and judges it."""
