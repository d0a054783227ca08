"""ResourceClaims and templates that users write themselves, and delete or replace at any time.

A template can come after the pods that name it, and another one can take its place. Of a claim,
another one with its name comes when it has gone: also while the containers of a pod use it that was
deleted with force. Pods share claims that nobody owns, beside those of their templates.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from drawbridge.names import ORIGINAL_ANNOTATION
from tests.cluster.fake.kinds import JSON, named
from tests.world.events import (
    choose_space,
    claim_of,
    create_pod,
    event,
    is_shared,
)
from tests.world.machines import draw_seconds
from tests.world.nodes import devices_of
from tests.world.objects import is_migrated
from tests.world.requests import draw_devices

if TYPE_CHECKING:
    from tests.world.world import World

_TEMPLATE: Final = named("resourceclaimtemplates")
_CLAIM: Final = named("resourceclaims")
# The templates of each namespace that users write.
_NAMES: Final = ("large", "small")
_ATTEMPTS: Final = 12


@event(4)
def create_from_template(world: "World", drawn: int) -> str:
    """Create one or two pods whose claims are made of a template; it can come after them."""
    space, name = choose_space(world, drawn), _NAMES[drawn // 16 % 2]
    entries = [{"name": "made", "resourceClaimTemplateName": name}]
    if drawn // 32 % 4 == 0:
        entries.append({"name": "made-too", "resourceClaimTemplateName": name})
    shared = [
        claim["metadata"]["name"]
        for claim in filter(is_shared, world.all("resourceclaims"))
        if claim["metadata"]["namespace"] == space
    ]
    names = [shared[drawn // 512 % len(shared)]] if shared and drawn // 128 % 4 == 0 else []
    world.rivals.joined.update(names)
    late = draw_seconds(drawn // 3, 6) if drawn // 2048 % 2 else 0.0
    if world.network.store.find(_TEMPLATE, space, name) is None:
        asyncio.get_running_loop().call_later(late, _put_template, world, space, name, drawn)
    priority = 100 if drawn // 4096 % 8 == 0 else 0
    about = {"shared": entries, "space": space, "priority": priority}
    made = [create_pod(world, names, **about) for _ in range(1 + (drawn // 256 % 4 == 0))]
    told = " and ".join(pod["metadata"]["name"] for pod in made)
    return f"{told} with template {space}/{name}{(names and f' and {names[0]}') or ''}"


def _put_template(world: "World", space: str, name: str, drawn: int) -> None:
    is_there = world.network.store.find(_TEMPLATE, space, name) is not None
    if is_there or not world.spaces.is_open(space):
        return
    count = 2 if drawn // 20 % 10 == 0 else 1
    devices = draw_devices(world.conditions, drawn, count, is_plain=False, is_alone=False)
    world.server.put(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": name, "namespace": space},
            "spec": {"spec": {"devices": devices}},
        }
    )


@event(1)
def replace_template(world: "World", drawn: int) -> str:
    """Delete a template of users, and write another one with its name some time later."""
    templates = [
        each["metadata"]
        for each in world.all(_TEMPLATE.long_name)
        if each["metadata"]["name"] in _NAMES
    ]
    if not templates:
        return ""
    metadata, seconds = templates[drawn % len(templates)], draw_seconds(drawn, 8)
    space, name = metadata["namespace"], metadata["name"]
    template = world.network.store.find(_TEMPLATE, space, name)
    assert template is not None, "it was listed"
    world.network.store.delete(_TEMPLATE, template)
    asyncio.get_running_loop().call_later(seconds, _put_template, world, space, name, drawn // 2)
    return f"{space}/{name} for {seconds:.1f} s"


@event(2)
def replace_claim(world: "World", drawn: int) -> str:
    """Delete a claim of users, mostly one without devices, and write another one in its place."""
    claims = [claim for claim in world.all("resourceclaims") if _is_of_users(claim)]
    waiting = [claim for claim in claims if not devices_of(claim)] if drawn % 4 else []
    if not (chosen := waiting or claims):
        return ""
    claim, pause = chosen[drawn // 4 % len(chosen)], draw_seconds(drawn, 5) * (drawn // 64 % 2)
    metadata = {key: claim["metadata"][key] for key in ("namespace", "name")}
    if owners := claim["metadata"].get("ownerReferences"):
        metadata["ownerReferences"] = owners
    world.network.store.delete(_CLAIM, claim)
    space = metadata["namespace"]
    conditions, is_plain = world.conditions, drawn // 128 % 2 == 0

    def write(attempts: int) -> None:
        """Write the claim as soon as the one before is gone, but not for ever."""
        if not world.spaces.is_open(space):
            return
        if world.network.store.find(_CLAIM, space, metadata["name"]) is None:
            world.network.count("claim that another one replaces")
            drawn_of = draw_devices(conditions, drawn // 2, 1, is_plain=is_plain, is_alone=False)
            world.server.put({**claim_of(metadata), "spec": {"devices": drawn_of}})
        elif attempts:
            asyncio.get_running_loop().call_later(0.7, write, attempts - 1)

    asyncio.get_running_loop().call_later(pause, write, _ATTEMPTS)
    return f"{metadata['name']}, another one after {pause:.1f} s"


def _is_of_users(claim: JSON) -> bool:
    """Whether our pods use a claim, and no controller makes it again."""
    metadata = claim["metadata"]
    is_made = any(each.get("controller") for each in metadata.get("ownerReferences") or ())
    is_native = metadata["name"][0] in "nr"
    return not is_made and not is_native and "deletionTimestamp" not in metadata


def has_template(world: "World", pod: JSON, entry: JSON) -> bool:
    """Whether a claim is made of a template; that of a user can be gone, or come later.

    Nobody makes that of a pod which others have stripped of our annotations.
    """
    name, space = entry.get("resourceClaimTemplateName"), pod["metadata"]["namespace"]
    annotations = pod["metadata"].get("annotations") or {}
    is_rebuilt = is_migrated(space) and ORIGINAL_ANNOTATION in annotations
    is_lost = not is_rebuilt and world.network.store.find(_TEMPLATE, space, name or "") is None
    return name is not None and not is_lost
