"""What becomes of one pod in the migration, by the decisions of admission.

A pod is taken back to what it asked for, and decided twice: with the facts of now, and with those
of the cluster whose plugins are replaced. Alike pods are decided once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from drawbridge.agreement.scope import (
    Mode,
    ScopeRule,
    decide_pod_scope,
    find_root_owner,
    read_metadata,
)
from drawbridge.audit.demand import Sizes, count_devices
from drawbridge.audit.model import Fate, PodDemand
from drawbridge.audit.objects import (
    AdmissionDecision,
    AuditedNamespace,
    AuditedObjects,
    Decide,
    namespace_of,
)
from drawbridge.audit.templates import Templates
from drawbridge.brief import Brief, CutShort
from drawbridge.config.model import Configuration
from drawbridge.documents.patch import Edit
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.dra.classes import is_implicit_name
from drawbridge.facts.model import Facts
from drawbridge.finding import Finding, Severity, Trait, find_names
from drawbridge.names import POD_WEBHOOK, TRANSLATE_LABEL
from drawbridge.report.plugin_units import count_units, served_by_class
from drawbridge.report.pod_requests import describe_requests
from drawbridge.translate.changes.queues import Mappings
from drawbridge.translate.codes import POD_TOO_COMPLEX
from drawbridge.translate.decisions import codes as decision_codes
from drawbridge.translate.decisions.codes import LEFT_TO_CLASS
from drawbridge.translate.essence import essence_key
from drawbridge.translate.legacy.asks import PodRequests
from drawbridge.translate.legacy.read import as_created, read_pod
from drawbridge.translate.returned_requests import report_beside_claims, restore_translated

_LEFT: Final = find_names((decision_codes.CODES,), Trait.LEAVES_REQUEST)
_MAX_LINES: Final = 16  # of one pod
_MAX_LINE: Final = 300
_CLAIM, _TEMPLATE = "ResourceClaim", "ResourceClaimTemplate"
_NAMES_NODE: Final = (
    "The template names its node (nodeName), so no scheduler allocates claims for its pods. Replace"
    " it by a nodeSelector on kubernetes.io/hostname."
)
_NOT_READ: Final = "not read"
# Why a pod is not translated, whatever the label of its namespace says.
_LEFT_OUT: Final[Mapping[ScopeRule, str]] = {
    ScopeRule.POD_LABEL: "The pod opts out of the translation by its label.",
    ScopeRule.ROLLOUT: "The rollout (scope.rollout) leaves out the owner of the pod.",
    ScopeRule.EXCLUDED: "The namespace is in scope.excludeNamespaces, so its label has no effect.",
    ScopeRule.NOT_CALLED: "The selectors of the installed webhook leave the pod out, so the label"
    " of its namespace has no effect.",
}
_NO_WEBHOOK: Final = f"The webhook {POD_WEBHOOK} is missing in the installed webhook configuration."


class PodOutcome(msgspec.Struct, frozen=True):
    """What a pod asks, and what becomes of it.

    `is_read` is whether a request could be read, as it may not be of a pod that is refused.
    """

    asks: tuple[str, ...]
    fate: Fate
    becomes: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    demand: PodDemand = PodDemand()
    edits: tuple[Edit, ...] = ()
    templates: tuple[Mapping[str, Value], ...] = ()
    is_read: bool = True


@dataclass(frozen=True)
class Decider:
    """What decides about pods: admission with the facts of now, and with those after."""

    now: Decide
    after: Decide
    brief: Brief
    configuration: Configuration
    facts: Facts  # after the migration
    sizes: Sizes
    objects: AuditedObjects
    most: Mapping[str, int]  # units of each name that the plugin of one node can give one pod
    templates: Templates
    decided: dict[bytes, PodOutcome | None] = field(default_factory=dict)
    mappings: list[Mappings] = field(default_factory=list)  # of all pods with claims

    def decide(self, pod: Value, namespace: AuditedNamespace) -> PodOutcome | None:
        """Return what becomes of a pod or pod template; None if it asks for no devices."""
        # Each pod has other devices, and alike pods are decided once.
        pod = as_created(pod)
        names_node = self._names_node(pod, namespace.name)
        key = essence_key(pod, namespace.name, self._find_rule(pod, namespace), names_node)
        if key is None:
            return self._decide_briefly(pod, namespace)
        if key not in self.decided:
            self.decided[key] = self._decide_briefly(pod, namespace)
        return self.decided[key]

    def find_claimed(self, pod: Value) -> Mapping[str, float]:
        """Return the devices by class that the claims of a running pod ask for."""
        outcome = self.decide(pod, self.objects.find_namespace(namespace_of(pod)))
        if outcome is None:
            return {}
        own = outcome.fate.has_claims or not outcome.is_read
        return outcome.demand.devices if own or served_by_class(pod) else {}

    def _decide_briefly(self, pod: Value, namespace: AuditedNamespace) -> PodOutcome | None:
        """Return what becomes of a pod; a pod for which that takes too long is refused."""
        try:
            return self.brief.run(lambda: self._decide(pod, namespace))
        except CutShort:
            why = f"{POD_TOO_COMPLEX.name}: the audit ends after {self.brief.seconds:g} s for a pod"
            return PodOutcome((_NOT_READ,), Fate.REFUSED, reasons=(why,))
        finally:
            self.brief.stop()

    def _decide(self, pod: Value, namespace: AuditedNamespace) -> PodOutcome | None:
        original = restore_translated(pod)
        asked = as_created(pod if original is None else original)
        after = self.after(asked, namespace)
        requests = read_pod(asked, self.configuration)
        asks = _describe(requests, after)
        own = tuple(self._own_specs(pod))
        held = PodDemand(devices=count_devices(own, self.sizes))
        if not asks:
            return self._outcome_without_legacy(asked, held, has_own=bool(own))
        fate, findings = self._choose(asked, namespace, after)
        reasons = _cut(f"{each.code}: {each.message}" for each in findings)
        if original is not None:
            fate = Fate.TRANSLATED
        elif fate.goes and self._names_node(pod, namespace.name):
            fate, reasons = Fate.STAYS, (_NAMES_NODE,)
        elif (rule := self._find_rule(pod, namespace)) and self._stays_kept(asked, fate):
            is_missing = rule is ScopeRule.NOT_CALLED and not self._has_webhook
            fate, reasons = Fate.STAYS, (_NO_WEBHOOK if is_missing else _LEFT_OUT[rule],)
        outcome = self._outcome(asked, after, asks, fate, reasons)
        if original is not None:
            demand = self._find_held(asked, own, outcome.demand)
            beside = report_beside_claims(pod, self.configuration, self.facts)
            codes = dict.fromkeys((*outcome.codes, *(each.code for each in beside)))
            return msgspec.structs.replace(outcome, demand=demand, codes=tuple(codes))
        if requests.asks or outcome.demand.units or not after.is_denied:
            return outcome
        return msgspec.structs.replace(outcome, is_read=False, demand=held)

    def _find_held(self, asked: Value, specs: Sequence[Value], told: PodDemand) -> PodDemand:
        """Return what a translated pod holds: its claims tell, or the annotation if not read."""
        written = [*self._own_specs(asked)]
        if specs.count(None) > written.count(None):  # a claim of the translation was not read
            more = count_devices(written, self.sizes)
            return msgspec.structs.replace(told, devices=_add(told.devices, more))
        return msgspec.structs.replace(told, devices=count_devices(specs, self.sizes))

    def _outcome_without_legacy(
        self, asked: Value, held: PodDemand, *, has_own: bool
    ) -> PodOutcome | None:
        """Return what becomes of a pod with claims of its own, or with implicit names of classes.

        Admission does not see implicit names: only the scheduler reads them.
        """
        implied = count_units(asked, is_implicit_name)
        becomes, devices = self._serve_by_class(implied)
        if not has_own and not becomes:
            return None
        listed = (f"{name} {n}" for name, n in implied.items() if self._find_class(name))
        own = ("claims of its own",) if has_own else ()
        fate = Fate.OWN_CLAIMS if has_own else Fate.BY_CLASS
        demand = PodDemand(devices=_add(held.devices, devices))
        return PodOutcome(_cut((*own, *listed)), fate, _cut(becomes), demand=demand)

    def _find_class(self, name: str) -> str:
        return next(iter(self.facts.find_resource(name).classes), "")

    def _serve_by_class(self, units: Mapping[str, int]) -> tuple[tuple[str, ...], dict[str, float]]:
        """Return what becomes of names that classes serve, and the devices by class."""
        devices: dict[str, float] = {}
        becomes = []
        for name, number in units.items():
            if served := self._find_class(name):
                becomes.append(f"{name} of DeviceClass {served}")
                devices = _add(devices, {served: number})
        return tuple(becomes), devices

    def _names_node(self, pod: Value, namespace: str) -> bool:
        """Whether the template of a pod names its node, so that no scheduler allocates for it."""
        owner = find_root_owner(namespace, read_metadata(pod)).partition("/")[2]
        return bool(self.templates.find(namespace, owner).named_node)

    def _find_rule(self, pod: Value, namespace: AuditedNamespace) -> ScopeRule | None:
        """Return what leaves a pod out of the translation if its namespace has the label."""
        labels = {**namespace.labels, TRANSLATE_LABEL: Mode.ENFORCE}
        scope, webhook = self.configuration.scope, self.objects.webhook
        mode, rule = decide_pod_scope(namespace.name, labels, read_metadata(pod), scope, webhook)
        return rule if mode is Mode.OFF else None

    @property
    def _has_webhook(self) -> bool:
        return self.objects.webhook is None or bool(self.objects.webhook.selectors)

    def _stays_kept(self, asked: Value, fate: Fate) -> bool:
        """Whether a pod that admission leaves alone keeps what it has, and may be created again."""
        if fate is not Fate.REFUSED:
            return fate is Fate.TO_TRANSLATE
        return all(self.most.get(name, 0) >= units for name, units in count_units(asked).items())

    def _choose(
        self, asked: Value, namespace: AuditedNamespace, after: AdmissionDecision
    ) -> tuple[Fate, Sequence[Finding]]:
        if after.is_denied:
            stays = not self.now(asked, namespace).is_denied and self._is_served(asked)
            return (Fate.STAYS if stays else Fate.REFUSED), [*_find_errors(after)]
        if after.templates:
            return Fate.TO_TRANSLATE, ()
        left = [each for each in after.findings if each.code in _LEFT]
        others = [each for each in left if each.code != LEFT_TO_CLASS.name]
        if left and not others:
            return Fate.BY_CLASS, ()
        return Fate.STAYS, others or after.findings

    def _is_served(self, asked: Value) -> bool:
        """Whether the plugin of any node has as many units."""
        return all(
            self.most.get(name, units) >= units for name, units in count_units(asked).items()
        )

    def _outcome(
        self,
        asked: Value,
        after: AdmissionDecision,
        asks: tuple[str, ...],
        fate: Fate,
        reasons: tuple[str, ...],
    ) -> PodOutcome:
        told = (each for each in after.findings if each.severity is not Severity.INFO)
        units = count_units(asked)
        becomes: tuple[str, ...] = ()
        devices: dict[str, float] = {}
        if fate in (Fate.TRANSLATED, Fate.TO_TRANSLATE):
            self.mappings.append(after.mappings)
            becomes = _cut(line.partition(" -> ")[2] or line for line in after.lines)
            specs = (get_value(each.object, ("spec", "spec")) for each in after.templates)
            devices = count_devices(specs, self.sizes)
        elif fate is Fate.BY_CLASS:
            becomes, devices = self._serve_by_class(units)
        if devices:
            devices = _add(devices, self._serve_by_class(count_units(asked, is_implicit_name))[1])
        return PodOutcome(
            asks,
            fate,
            becomes,
            reasons,
            tuple(dict.fromkeys(each.code for each in told)),
            PodDemand(units, devices),
            tuple(after.edits) if fate is Fate.TO_TRANSLATE else (),
            tuple(each.object for each in after.templates) if fate is Fate.TO_TRANSLATE else (),
        )

    def _own_specs(self, pod: Value) -> Iterator[Value]:
        """Yield the specs of the claims that the pod was written with."""
        namespace = namespace_of(pod)
        for claim in map(as_mapping, as_list(get_value(pod, ("spec", "resourceClaims")))):
            if name := claim.get("resourceClaimName"):
                yield self.objects.claim_specs.get((_CLAIM, namespace, f"{name}"))
            elif name := claim.get("resourceClaimTemplateName"):
                yield self.objects.claim_specs.get((_TEMPLATE, namespace, f"{name}"))


def _add(first: Mapping[str, float], second: Mapping[str, float]) -> dict[str, float]:
    """Return the sum of devices by class."""
    return {
        name: first.get(name, 0) + second.get(name, 0) for name in dict.fromkeys((*first, *second))
    }


def _describe(requests: PodRequests, decision: AdmissionDecision) -> tuple[str, ...]:
    """Return what a pod asks; of one that is refused unread, the fields that say so."""
    is_read = requests.asks or decision.is_denied
    listed = tuple(describe_requests(requests)) if is_read else ()
    refused = (each.path for each in _find_errors(decision))
    return _cut(listed or decision.asked or (each or _NOT_READ for each in refused))


def _find_errors(decision: AdmissionDecision) -> Iterator[Finding]:
    return (each for each in decision.findings if each.severity is Severity.ERROR)


def _cut(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the first texts, each cut: tenants write names and amounts."""
    shown = [*dict.fromkeys(texts)]
    return tuple(
        text if len(text) <= _MAX_LINE else f"{text[:_MAX_LINE]}..." for text in shown[:_MAX_LINES]
    )
