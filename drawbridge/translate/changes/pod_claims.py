"""Puts claims into a pod, in place of the fields that requested the devices."""

import itertools
from collections.abc import Iterable, Iterator

from drawbridge.documents.paths import Path, get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.names import POD_CLAIM
from drawbridge.translate.changes.patch import Patch
from drawbridge.translate.changes.queues import uses_whole_claim
from drawbridge.translate.changes.template import ClaimTemplate
from drawbridge.translate.legacy.asks import SourceField
from drawbridge.translate.targets.claims import ComposedClaim

_CLAIMS: Path = ("spec", "resourceClaims")


def remove_fields(patch: Patch, fields: Iterable[SourceField], asks: set[str]) -> None:
    """Remove or replace the fields all of whose asks are among these, by name."""
    translated: dict[int, bool] = {}  # by id: many fields have one tuple of asks
    for field in fields:
        key = id(field.asks)
        if key not in translated:
            translated[key] = asks.issuperset(field.asks)
        path = (*field.path, field.name)
        if translated[key] and field.replacement is not None:
            patch.put(path, field.replacement)
        elif translated[key] and field.removed:
            patch.remove(path)


def add_claims(
    patch: Patch, claims: Iterable[tuple[ComposedClaim, ClaimTemplate]], *, whole: bool
) -> None:
    """Add the claims, and reference them: with `whole`, once where a container uses all of one."""
    names = _unused_names(as_list(get_value(patch.pod, _CLAIMS)))
    for (claim, template), name in zip(claims, names, strict=False):
        patch.append(_CLAIMS, {"name": name, "resourceClaimTemplateName": template.name})
        for use in claim.uses:
            references = (*use.user.path, "resources", "claims")
            for request in (None,) if whole and uses_whole_claim(claim, use) else use.requests:
                part = {"request": request} if request else {}
                patch.append(references, {"name": name, **part})


def _unused_names(claims: Iterable[Value]) -> Iterator[str]:
    """Yield names for claims that no claim of the pod has."""
    taken = {name for each in claims if isinstance(name := as_mapping(each).get("name"), str)}
    named = (f"{POD_CLAIM}-{number}" for number in itertools.count(2))
    return (name for name in itertools.chain((POD_CLAIM,), named) if name not in taken)
