"""Puts claims into a pod, in place of the fields that requested the devices."""

import itertools
from collections.abc import Iterable, Iterator

from drawbridge.documents.paths import Path, format_path, get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.finding import Finding
from drawbridge.names import POD_CLAIM
from drawbridge.translate.changes.codes import CLAIM_NAMED_TWICE
from drawbridge.translate.changes.patch import Patch
from drawbridge.translate.changes.template import ClaimTemplate
from drawbridge.translate.legacy.asks import SourceField
from drawbridge.translate.legacy.pod_view import format_value
from drawbridge.translate.targets.claims import ComposedClaim
from drawbridge.translate.targets.codes import QUEUE_REFUSES_REQUEST

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


def report_repeated_entries(
    claims: Iterable[tuple[ComposedClaim, ClaimTemplate]], queue: str, *, is_manifest: bool
) -> Iterator[Finding]:
    """Report containers with several entries for one claim.

    Server-side apply refuses them in a manifest. Kueue keeps a pod in an object that allows one
    entry for each claim of a container.
    """
    uses = (use for claim, _ in claims for use in claim.uses if len(use.entries) > 1)
    for use in uses if queue or is_manifest else ():
        path = format_path(use.user.path)
        if queue:
            yield QUEUE_REFUSES_REQUEST.at(
                path,
                f"queue {format_value(queue)} of Kueue refuses a container with "
                f"{len(use.entries)} requests of a claim that other containers use too",
                remedy="Request one kind of device in each container, or use one pod for each.",
            )
        else:
            message = (
                f"container {use.user.name} has {len(use.entries)} entries for one claim, which "
                "other containers use too"
            )
            yield CLAIM_NAMED_TWICE.at(path, message)


def add_claims(patch: Patch, claims: Iterable[tuple[ComposedClaim, ClaimTemplate]]) -> None:
    """Add the claims, and what the containers use of them."""
    names = _unused_names(as_list(get_value(patch.pod, _CLAIMS)))
    for (claim, template), name in zip(claims, names, strict=False):
        patch.append(_CLAIMS, {"name": name, "resourceClaimTemplateName": template.name})
        for use in claim.uses:
            references = (*use.user.path, "resources", "claims")
            for request in use.entries:
                part = {"request": request} if request else {}
                patch.append(references, {"name": name, **part})


def _unused_names(claims: Iterable[Value]) -> Iterator[str]:
    """Yield names for claims that no claim of the pod has."""
    taken = {name for each in claims if isinstance(name := as_mapping(each).get("name"), str)}
    named = (f"{POD_CLAIM}-{number}" for number in itertools.count(2))
    return (name for name in itertools.chain((POD_CLAIM,), named) if name not in taken)
