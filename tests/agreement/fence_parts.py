"""The parts of a fence around devices, as an API server stores them."""

from collections.abc import Iterable
from typing import Any

import msgspec

from drawbridge.agreement.device_fence import BINDING_SPEC, FencePart, FenceParts, policy_spec
from drawbridge.dra.inventory import PoolID

NAMESPACE = "own"


def part(
    spec: Any,  # noqa: ANN401  # JSON
    *,
    uid: str = "u",
    generation: int = 1,
    deletion: str | None = None,
) -> FencePart:
    """Return a part with a spec."""
    metadata = {"uid": uid, "generation": generation, "deletionTimestamp": deletion}
    return msgspec.convert({"metadata": metadata, "spec": spec}, FencePart)


def installed(
    pools: Iterable[PoolID] = (), *, generation: int = 1, uid: str = "policy"
) -> FenceParts:
    """Return both parts, for a policy that names these pools."""
    return FenceParts(
        part(policy_spec(pools, NAMESPACE), uid=uid, generation=generation),
        part(dict(BINDING_SPEC), uid="binding"),
    )
