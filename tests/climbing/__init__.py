"""Searches the input that holds an event loop longest, one change of its shape after the other.

`climb` knows no input. `inputs` has what a tenant and a driver write, `loops` the real loops that
receive it. Time of the processor counts, because other processes of the machine make all else
longer.
"""
