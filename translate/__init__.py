"""What pods of device plugins ask, said in DRA: asks, the dialects that read them, targets.

A dialect knows pods and nothing of DRA; a target knows DRA and nothing of dialects; the asks
between them are plain frozen data.
"""
