"""Decide from the Deployment of the webhook whether every replica serves the guard."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from drawbridge.names import SERVES_ANNOTATION

GUARD: Final = "guard"


class _Metadata(msgspec.Struct, frozen=True):
    annotations: Mapping[str, str] | None = None
    generation: int = 0


class _Template(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()


class _Spec(msgspec.Struct, frozen=True):
    template: _Template = _Template()


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0


class _Deployment(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()
    spec: _Spec = _Spec()
    status: _Status = _Status()


def serves_guard(deployment: Mapping[str, Any] | None) -> bool:
    """Return whether all replicas that answer serve the guard: no other version has a replica.

    A replica that never becomes ready gets no requests, so the guard does not wait for it.
    """
    read = msgspec.convert(deployment or {}, _Deployment)
    served = (read.spec.template.metadata.annotations or {}).get(SERVES_ANNOTATION)
    status = read.status
    return (
        served == GUARD
        and status.observed_generation >= read.metadata.generation
        and status.replicas == status.updated_replicas
        and status.ready_replicas > 0
    )
