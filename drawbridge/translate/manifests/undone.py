"""Undoes the translation of an object of any kind: of all its pod templates, or of none.

Uses the annotation with the original requests. Anybody can write it, and the caller can create the
result with more rights, so it changes only fields that translations change. The work is limited.
"""

import sys
from collections.abc import Iterator

from drawbridge.documents.patch import Edit, EditError
from drawbridge.documents.paths import Path, format_path, get_value, parse_index
from drawbridge.documents.values import Value
from drawbridge.finding import Finding
from drawbridge.names import ORIGINAL_ANNOTATION, POD_CLAIM
from drawbridge.translate.changes.undo import UndoStep, apply_undo, parse_undo
from drawbridge.translate.manifests import argo
from drawbridge.translate.manifests.codes import ORIGINAL_MISSING, ORIGINAL_UNUSABLE
from drawbridge.translate.manifests.objects import TranslatedObject
from drawbridge.translate.manifests.workloads import Place, find_places, map_path
from drawbridge.translate.returned_requests import list_own_claims

_ANNOTATION: Path = ("metadata", "annotations", ORIGINAL_ANNOTATION)


class _RefusedError(Exception):
    """A pod template cannot be restored, for the reason in `finding`."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


def undo_object(value: Value, name: str) -> TranslatedObject:
    """Return the edits that give back what an object asked; none without such an annotation."""
    edits: list[Edit] = []
    findings: list[Finding] = []
    try:
        for place in (*find_places(value), *argo.find_translated_places(value)):
            edits += _undo_place(place, name)
            findings += _report_missing(place, name)
    except _RefusedError as refused:
        return TranslatedObject(findings=(refused.finding,))
    return TranslatedObject(tuple(edits), findings=tuple(findings))


def _report_missing(place: Place, name: str) -> Iterator[Finding]:
    """Report the claims of a translation without the annotation with the original requests."""
    claims = [each for each in list_own_claims(place.pod) if each.startswith(POD_CLAIM)]
    if claims and get_value(place.pod, _ANNOTATION) is None:
        path = format_path(map_path(("spec", "resourceClaims"), place))
        message = f"{', '.join(sorted(claims))} stays: no annotation has the original requests"
        yield ORIGINAL_MISSING.at(path, message, object=name)


def _undo_place(place: Place, name: str) -> tuple[Edit, ...]:
    text = get_value(place.pod, _ANNOTATION)
    if text is None:
        return ()
    steps = parse_undo(text)
    if not steps:
        raise _refuse(place, name, "the annotation is not a list of changes")
    try:
        _, applied = apply_undo(place.pod, steps)
    except EditError as error:
        raise _refuse(place, name, f"{error}") from None
    edits = argo.map_undo(place, tuple(_edits(applied)))
    if edits is None:
        raise _refuse(place, name, "podSpecPatch has other content than the claims")
    return edits


def _refuse(place: Place, name: str, reason: str) -> _RefusedError:
    path = format_path(map_path(_ANNOTATION, place))
    message = f"the original requests cannot be restored: {reason}"
    return _RefusedError(ORIGINAL_UNUSABLE.at(path, message, object=name))


def _edits(steps: list[UndoStep]) -> Iterator[Edit]:
    """Yield the changes among the steps, with numbers as indices, as the tables of places have."""
    for step in steps:
        if step.op != "test":
            indices = ((one, parse_index(one, sys.maxsize)) for one in step.path)
            path = tuple(one if index is None else index for one, index in indices)
            yield Edit(step.op, path, step.value)
