"""Writes of which the API server has to keep everything.

A policy of others can remove an annotation, a label or a taint from each write. The API server
accepts such a write, and the next run finds the same to do. So that is a failure of the object.
"""

from collections.abc import Mapping
from typing import Final

from controller.protocols import ObjectStore, Unstructured
from drawbridge.api_error import ApiError
from drawbridge.dra.quantity import valid_quantity

# A precondition, and not a part of the object.
_VERSION: Final = "resourceVersion"


class NotKeptError(ApiError):
    """The API server accepted a write, and has not stored a part of it."""

    def __init__(self, name: str, path: str) -> None:
        text = f"{path} of {name} is not stored as written; a policy or another webhook changes it"
        super().__init__(422, "NotKept", text)


async def merge_kept(store: ObjectStore, name: str, value: Unstructured) -> None:
    """Apply a JSON merge patch to an object without a namespace; raises ApiError."""
    _check(name, value, await store.merge(name, value))


async def apply_kept(store: ObjectStore, value: Unstructured, namespace: str) -> None:
    """Apply the fields of this controller; raises ApiError."""
    name = f"{namespace}/{value['metadata']['name']}"
    _check(name, value, await store.apply(value, namespace))


def _check(name: str, sent: Unstructured, stored: Unstructured) -> None:
    if lost := find_lost(sent, stored):
        raise NotKeptError(name, lost)


def find_lost(sent: object, stored: object, path: str = "") -> str:
    """Return the path of a value that was sent and is not stored; empty if everything is.

    Null removes a field. A list is stored as a whole, and a quantity can have another form.
    """
    if isinstance(sent, Mapping):
        fields = stored if isinstance(stored, Mapping) else {}
        lost = (
            find_lost(value, fields.get(key), f"{path}.{key}".lstrip("."))
            for key, value in sent.items()
            if key != _VERSION
        )
        return next(filter(None, lost), "")
    if isinstance(sent, list):
        items = stored if isinstance(stored, list) else []
        lost = (find_lost(one, other, path) for one, other in zip(sent, items, strict=False))
        return path if len(sent) != len(items) else next(filter(None, lost), "")
    return "" if sent == stored or _is_same_quantity(sent, stored) else path


def _is_same_quantity(sent: object, stored: object) -> bool:
    amounts = valid_quantity(sent), valid_quantity(stored)
    return None not in amounts and amounts[0] == amounts[1]
