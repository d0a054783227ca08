"""The parts of a fence around devices, as an API server stores them."""

from collections.abc import Iterable
from typing import Any

import msgspec

from drawbridge.agreement.device_fence import (
    BINDING_SPEC,
    FencePart,
    FenceParts,
    policy_spec,
    write_pools,
)
from drawbridge.dra.inventory import PoolID
from drawbridge.names import LEAVING_POOLS_ANNOTATION

NAMESPACE = "own"


def part(
    spec: Any,  # noqa: ANN401  # JSON
    *,
    uid: str = "u",
    generation: int = 1,
    deletion: str | None = None,
    leaving: Iterable[PoolID] = (),
) -> FencePart:
    """Return a part with a spec, and pools that leave."""
    metadata: dict[str, Any] = {"uid": uid, "generation": generation}
    metadata["deletionTimestamp"] = deletion
    metadata["annotations"] = {LEAVING_POOLS_ANNOTATION: write_pools(leaving)}
    return msgspec.convert({"metadata": metadata, "spec": spec}, FencePart)


def installed(
    pools: Iterable[PoolID] = (),
    *,
    generation: int = 1,
    uid: str = "policy",
    leaving: Iterable[PoolID] = (),
) -> FenceParts:
    """Return both parts, for a policy that names these pools."""
    return FenceParts(
        part(policy_spec(pools, NAMESPACE), uid=uid, generation=generation, leaving=leaving),
        part(dict(BINDING_SPEC), uid="binding"),
    )
