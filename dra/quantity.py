"""Kubernetes quantities, exactly."""

import msgspec


class Quantity(msgspec.Struct, frozen=True, gc=False):
    """Placeholder of the shape; the module is being written."""

    text: str
