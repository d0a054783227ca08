"""An object that makes pods: a warning per claim of each, and early refusal where none could start.

Nothing is changed; the pods are translated when they are created. An update that leaves the pod
templates alone is never spoken of. Knows no kind of object by itself.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from config.policy import treated
from documents.paths import get, parse, show
from documents.values import Value, same
from dra.finding import Finding, Severity
from registration import scope
from registration.scope import Mode, Owner
from runtime.review import Malformed, Request, allowed, value
from translate.legacy.pod_view import mapping
from translate.manifests.workloads import Place, moved, places
from translate.pods import Given
from webhook.admission import limit_ranges, pods
from webhook.admission.claim_summary import Claims
from webhook.admission.limit_ranges import LimitRange
from webhook.admission.messages import short, warnings
from webhook.admission.pods import Outcome, Said


class Around(NamedTuple):
    """What stands around a workload: LimitRanges, and why its pods may never be sent to us."""

    ranges: Sequence[LimitRange] = ()
    unsent: Sequence[Finding] = ()


def answer(
    request: Request, mode: Mode, given: Given, claims: Claims, around: Around
) -> Said | Malformed:
    """Answer a review of such an object."""
    new = value(request.object)
    if isinstance(new, Malformed):
        return new
    if not _chosen(new, request, given) or _unchanged(request, new):
        return Said(allowed(), "allowed")
    all_places = places(new)
    found = [each for each in all_places if not scope.opted_out(_labels(each))]

    def decided(place: Place) -> Outcome:
        outcome = pods.decide(place.pod, request.namespace, given, claims)
        return _surrounded(outcome, place, mode, given, around.ranges)

    outcomes = [(place, decided(place)) for place in found]
    findings = tuple(dict.fromkeys(each for one in outcomes for each in _findings(*one)))
    if any(one.edits for _, one in outcomes):
        # We see the workload though nobody may send us its pods.
        findings += tuple(treated(around.unsent, given.configuration.findings))
    refused = [one for _, one in outcomes if one.refused]
    if refused and len(refused) == len(all_places) and mode is Mode.ENFORCE:
        return pods.refusal(findings)
    lines = list(_lines((one for _, one in outcomes), mode))
    return _told(lines, findings, _command(request))


def _told(lines: list[str], findings: Sequence[Finding], command: str) -> Said:
    """Let the object in, with what there is to say of it."""
    codes = tuple(dict.fromkeys(each.code for each in findings))
    told = [each for each in findings if each.severity is not Severity.INFO]
    if not lines and not told:
        return Said(allowed(), "allowed", codes)
    shown = [*warnings(lines, told, command), command]
    return Said(
        allowed((), list(dict.fromkeys(shown)), _audit("reported", codes)), "reported", codes
    )


def _audit(outcome: str, codes: Iterable[str]) -> dict[str, str]:
    return {"outcome": outcome, "findings": ",".join(codes)}


def _surrounded(
    outcome: Outcome, place: Place, mode: Mode, given: Given, ranges: Sequence[LimitRange]
) -> Outcome:
    if not outcome.edits:
        return outcome
    found = (*limit_ranges.early(outcome.asked, ranges), *scope.mislabelled(_labels(place), mode))
    told = treated(found, given.configuration.findings)
    return replace(outcome, findings=(*outcome.findings, *told))


def _lines(outcomes: Iterable[Outcome], mode: Mode) -> Iterator[str]:
    will = "pods will be translated" if mode is Mode.ENFORCE else "pods would be translated"
    for each in outcomes:
        for line in () if each.refused else each.lines:
            yield f"{will}: {line}"


def _findings(place: Place, outcome: Outcome) -> Iterator[Finding]:
    """Give the findings about a pod template with paths of the whole object."""
    for each in outcome.findings:
        tokens = (int(one) if one.isdecimal() else one for one in parse(each.path))
        yield replace(each, path=show(moved(tuple(tokens), place)))


def _chosen(new: Value, request: Request, given: Given) -> bool:
    """Tell whether the rollout is as far as this object's pods."""
    name = get(new, ("metadata", "name"))
    pod = scope.Metadata(
        owner_references=(Owner(request.kind.kind, name if isinstance(name, str) else ""),)
    )
    owner = scope.owner(request.namespace, pod)
    return scope.rolled_out(owner, given.configuration.scope.rollout.percent)


def _labels(place: Place) -> scope.Metadata:
    labels = mapping(get(place.pod, ("metadata", "labels")))
    return scope.Metadata(
        labels={key: text for key, text in labels.items() if isinstance(text, str)}
    )


def _unchanged(request: Request, new: Value) -> bool:
    """Tell whether an update leaves what its pods are made from as it was."""
    if request.operation != "UPDATE":
        return False
    old = value(request.old_object)
    if isinstance(old, Malformed):
        return False
    before, after = places(old), places(new)
    return len(before) == len(after) and all(
        same(one.pod, other.pod) for one, other in zip(before, after, strict=True)
    )


def _command(request: Request) -> str:
    kind = request.kind.kind.lower()
    group = f".{request.kind.group}" if request.kind.group else ""
    get_it = f"kubectl get {kind}{group} {request.name or 'NAME'} -n {request.namespace} -o yaml"
    return short(f"all of it: {get_it} | drawbridge translate -f - --context")
