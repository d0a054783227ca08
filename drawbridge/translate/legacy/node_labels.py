"""Turns node selectors and node affinities on GPU labels into selectors on devices.

The node labels disappear together with the device plugin, and a pod that selects nodes by them
stays pending. Only pods that request devices of the label's vendor change. `gpu_labels` interprets
the labels.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from drawbridge.documents.paths import Path, format_path
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.dra.counted import list_some
from drawbridge.finding import Finding
from drawbridge.translate.legacy.asks import Ask, DeviceShare, Kind, PodRequests, SourceField
from drawbridge.translate.legacy.codes import (
    LABEL_DROPPED,
    LABEL_KEPT,
    LABEL_LOOSE,
    REPLICAS_ARE_ONE,
)
from drawbridge.translate.legacy.dialects import gpu_labels
from drawbridge.translate.legacy.dialects.gpu_labels import LabelMeaning, LabelTerm
from drawbridge.translate.legacy.kept_labels import list_used_labels, report_used
from drawbridge.translate.legacy.pod_view import PodView, format_value
from drawbridge.translate.legacy.selectors import AllOf, AnyOf, AskSelector, Memory, Not

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_AFFINITY: Path = ("spec", "affinity", "nodeAffinity")
# The rows of asks for whole GPUs on nodes whose GPUs are partitioned.
_PARTITIONED_ROWS = {"nvidia/whole": "nvidia/mig-single", "amd/whole": "amd/partition"}
_PARTITION = "nvidia/mig"
# A claim has at most eight alternatives. The last one accepts any device.
_MAX_PREFERENCES = 7
_MAX_KEYS = 10  # in a message


@dataclass(slots=True)
class _VendorLabels:
    """Everything that the labels of one vendor contribute to its asks."""

    vendor: str
    asks: tuple[str, ...]
    selectors: dict[AskSelector, str] = field(default_factory=dict)  # to the keys of the labels
    alternatives: list[AskSelector] = field(default_factory=list)
    source_fields: list[SourceField] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    profile: str = ""
    replica: bool = False

    def add(self, term: LabelTerm, meaning: LabelMeaning) -> None:
        self.selectors |= dict.fromkeys(meaning.selectors, term.key)
        self.findings += meaning.findings
        self.profile = meaning.profile or self.profile
        self.replica = meaning.replica or self.replica


def apply_node_labels(pod: PodView, asks: tuple[Ask, ...]) -> PodRequests:
    """Return the asks with the conditions of the pod's node labels on GPUs."""
    findings: list[Finding] = []
    source_fields: list[SourceField] = []
    used = list_used_labels(pod) if asks else []
    for vendor in ("nvidia", "amd", "intel"):
        names = tuple(ask.name for ask in asks if _is_affected(ask, vendor))
        if not names:
            continue
        labels = _VendorLabels(vendor, names)
        _read_node_selector(pod, labels)
        _read_required(pod, labels)
        _read_preferred(pod, labels)
        affected = frozenset(names)
        asks = tuple([_apply(ask, labels) if ask.name in affected else ask for ask in asks])
        findings += labels.findings
        source_fields += labels.source_fields
        used = [e for e in used if e.topology or gpu_labels.label_vendor(e.key) != vendor]
    findings += report_used(used)
    return PodRequests(asks, tuple(source_fields), tuple(findings))


def _is_affected(ask: Ask, vendor: str) -> bool:
    return ask.kind is Kind.GPU and not ask.passthrough and ask.vendor in {vendor, ""}


def _apply(ask: Ask, labels: _VendorLabels) -> Ask:
    has_labels = bool(labels.source_fields or labels.selectors)
    ask = replace(
        ask,
        vendor=labels.vendor if has_labels else ask.vendor,
        selectors=(*ask.selectors, *_selectors_for(ask, labels)),
        alternatives=(*ask.alternatives, *labels.alternatives),
        uses_node_labels=bool(labels.source_fields),
    )
    if ask.row not in _PARTITIONED_ROWS and not (labels.replica and ask.row == _PARTITION):
        _report_divided(ask, labels)
        return ask
    # The plain resource name means partitions or replicas if the node is configured so.
    if labels.profile and ask.row != _PARTITION:
        profile = gpu_labels.partition_profile(labels.profile)
        ask = replace(
            ask, row=_PARTITIONED_ROWS[ask.row], partition=True, selectors=(*ask.selectors, profile)
        )
    if labels.replica:
        if ask.count != 1:
            labels.findings.append(
                REPLICAS_ARE_ONE.at(
                    "spec",
                    f"the node label selects shared GPUs; {ask.count} replicas count as one share",
                )
            )
        row = "nvidia/mig-replica" if ask.partition else "nvidia/replica"
        ask = replace(ask, row=row, count=1, share=DeviceShare(replica=True))
    return ask


def _report_divided(ask: Ask, labels: _VendorLabels) -> None:
    """Report a request for whole GPUs on nodes whose GPUs are divided."""
    if (labels.profile or labels.replica) and ask.share is None and not ask.partition:
        names = ", ".join(ask.resources) or ask.row
        what = "the node labels select GPUs that are divided, but the claim requests whole ones"
        labels.findings.append(LABEL_LOOSE.at("spec", f"{names}: {what}"))


def _selectors_for(ask: Ask, labels: _VendorLabels) -> list[AskSelector]:
    """Return the selectors that apply to this ask, for partitions without those on GPU memory."""
    dropped = {s: key for s, key in labels.selectors.items() if ask.partition and _is_on_memory(s)}
    if dropped:
        finding = LABEL_DROPPED.at(
            "spec",
            f"dropped the condition on {', '.join(dropped.values())}, because the pod requests "
            "partitions, and the label has the memory of the whole GPU",
            remedy="Remove the label, or request partitions of another size.",
        )
        if finding not in labels.findings:
            labels.findings.append(finding)
    return [selector for selector in labels.selectors if selector not in dropped]


def _is_on_memory(selector: AskSelector) -> bool:
    if isinstance(selector, Not):
        return _is_on_memory(selector.operand)
    if isinstance(selector, AnyOf | AllOf):
        return any(map(_is_on_memory, selector.operands))
    return isinstance(selector, Memory)


def _read_node_selector(pod: PodView, labels: _VendorLabels) -> None:
    path: Path = ("spec", "nodeSelector")
    selector = as_mapping(pod.spec.get("nodeSelector"))
    terms = [
        LabelTerm(key, "In", (format_value(value),), format_path((*path, key)))
        for key, value in selector.items()
        if gpu_labels.label_vendor(key) == labels.vendor
    ]
    for term, meaning in _interpret(terms):
        labels.add(term, meaning)
        if not meaning.kept:
            value = selector[term.key]
            labels.source_fields.append(SourceField(path, term.key, value, asks=labels.asks))


def _interpret(terms: Iterable[LabelTerm]) -> list[tuple[LabelTerm, LabelMeaning]]:
    """Interpret terms that must all match. Combines both parts of a compute capability."""
    listed = list(terms)
    major = next((term for term in listed if term.key == gpu_labels.MAJOR), None)
    minor = next((term for term in listed if term.key == gpu_labels.MINOR), None)
    pair = gpu_labels.interpret_compute_capability(major, minor) if major and minor else None
    if pair is None:
        return [(term, gpu_labels.interpret_term(term)) for term in listed]
    return [
        (
            term,
            pair
            if term is major
            else LabelMeaning()
            if term is minor
            else gpu_labels.interpret_term(term),
        )
        for term in listed
    ]


@dataclass(frozen=True, slots=True)
class _AffinityTerm:
    """One term of a node affinity, split into terms on devices and the rest."""

    meanings: Mapping[LabelTerm, LabelMeaning]
    rest: dict[str, Value]
    empty: bool

    @property
    def selectors(self) -> tuple[AskSelector, ...]:
        return tuple(s for meaning in self.meanings.values() for s in meaning.selectors)

    @property
    def is_special(self) -> bool:
        return any(meaning.profile or meaning.replica for meaning in self.meanings.values())


def _read_entry(raw: Value, path: Path, vendor: str) -> _AffinityTerm:
    entry = dict(as_mapping(raw))
    expressions = as_list(entry.get("matchExpressions"))
    terms: dict[int, LabelTerm] = {}
    for i, written in enumerate(expressions):
        expression = as_mapping(written)
        key = expression.get("key")
        if isinstance(key, str) and gpu_labels.label_vendor(key) == vendor:
            values = tuple(map(format_value, as_list(expression.get("values"))))
            where = format_path((*path, "matchExpressions", i))
            terms[i] = LabelTerm(key, format_value(expression.get("operator")), values, where)
    meanings = dict(_interpret(terms.values()))
    read = {term.where: meaning for term, meaning in meanings.items()}
    rest = [
        written
        for i, written in enumerate(expressions)
        if i not in terms or read[terms[i].where].kept
    ]
    if rest or "matchExpressions" not in entry:
        kept = entry | ({"matchExpressions": rest} if rest else {})
    else:
        kept = {key: value for key, value in entry.items() if key != "matchExpressions"}
    fields = bool(as_list(entry.get("matchFields")))
    return _AffinityTerm(meanings, kept, not expressions and not fields)


def _read_required(pod: PodView, labels: _VendorLabels) -> None:
    """Read the terms of the required affinity, which are alternatives."""
    affinity = as_mapping(as_mapping(pod.spec.get("affinity")).get("nodeAffinity"))
    required = affinity.get(_REQUIRED)
    written = as_list(as_mapping(required).get("nodeSelectorTerms"))
    path: Path = (*_AFFINITY, _REQUIRED, "nodeSelectorTerms")
    terms = [_read_entry(term, (*path, i), labels.vendor) for i, term in enumerate(written)]
    if not any(term.meanings for term in terms):
        return
    if len(terms) == 1:
        for label_term, meaning in terms[0].meanings.items():
            labels.add(label_term, meaning)
    elif _differ_in_selectors_only(terms):
        _add_choice(labels, terms)
    else:
        _keep_required(labels, terms, format_path((*_AFFINITY, _REQUIRED)))
        return
    if terms[0].rest != written[0] or len(written) > 1:
        _replace_required(labels, required, terms[0].rest)


def _differ_in_selectors_only(terms: Sequence[_AffinityTerm]) -> bool:
    """Whether the terms are equal except for device labels that a selector can express."""
    return all(
        term.rest == terms[0].rest and not term.is_special and not term.empty for term in terms
    )


def _add_choice(labels: _VendorLabels, terms: Sequence[_AffinityTerm]) -> None:
    """Require the selectors of any of the terms. A term without selectors accepts all devices."""
    labels.findings += [
        finding
        for term in terms
        for meaning in term.meanings.values()
        for finding in meaning.findings
    ]
    if all(term.selectors for term in terms):
        choices = tuple(dict.fromkeys(gpu_labels.all_of(term.selectors) for term in terms))
        keys = ", ".join(dict.fromkeys(label.key for term in terms for label in term.meanings))
        labels.selectors[choices[0] if len(choices) == 1 else AnyOf(choices)] = keys
    else:
        labels.findings += [
            gpu_labels.imply(label, "another term of the affinity accepts any device")
            for term in terms
            for label, meaning in term.meanings.items()
            if meaning.selectors
        ]


def _replace_required(labels: _VendorLabels, value: Value, rest: Mapping[str, Value]) -> None:
    """Keep one term without the device labels. Removes an empty term: it matches no node."""
    left: Value = None
    if any(as_list(part) for part in rest.values()):
        left = {**as_mapping(value), "nodeSelectorTerms": [dict(rest)]}
    labels.source_fields.append(
        SourceField(_AFFINITY, _REQUIRED, value, replacement=left, asks=labels.asks)
    )


def _keep_required(labels: _VendorLabels, terms: Sequence[_AffinityTerm], where: str) -> None:
    """Keep an "or" that no selector can express. Selectors common to all terms still apply."""
    common = frozenset(terms[0].selectors).intersection(*(term.selectors for term in terms[1:]))
    for label, meaning in terms[0].meanings.items():
        shared = (selector for selector in meaning.selectors if selector in common)
        labels.selectors |= dict.fromkeys(shared, label.key)
    keys = dict.fromkeys(label.key for term in terms for label in term.meanings)
    labels.findings.append(
        LABEL_KEPT.at(
            where,
            "the terms differ in device labels and in others, so the pod keeps all of them: "
            f"{list_some([*keys], _MAX_KEYS, 'label')}; a node without the labels satisfies NotIn "
            "and DoesNotExist",
            remedy="Use the same device labels in all terms, or the same other labels.",
        )
    )


def _read_preferred(pod: PodView, labels: _VendorLabels) -> None:
    """Read preferences for devices by descending weight. The weights themselves are lost."""
    affinity = as_mapping(as_mapping(pod.spec.get("affinity")).get("nodeAffinity"))
    path: Path = (*_AFFINITY, _PREFERRED)
    preferences: list[tuple[int, int, AskSelector]] = []
    for i, raw in enumerate(as_list(affinity.get(_PREFERRED))):
        preference = as_mapping(raw)
        where: Path = (*path, i, "preference")
        entry = _read_entry(preference.get("preference"), where, labels.vendor)
        if not entry.meanings:
            continue
        weight = preference.get("weight")
        only_devices = not any(as_list(part) for part in entry.rest.values())
        if only_devices and entry.selectors and not entry.is_special and isinstance(weight, int):
            preferences.append((-weight, i, gpu_labels.all_of(entry.selectors)))
        else:
            labels.findings.append(
                LABEL_KEPT.at(
                    format_path((*path, i)),
                    "the preference is not only about devices, so the pod keeps it",
                    remedy="Write its device labels as a preference of their own.",
                )
            )
    preferences.sort(key=lambda one: one[:2])
    for _, i, _ in preferences[_MAX_PREFERENCES:]:
        labels.findings.append(
            LABEL_KEPT.at(
                format_path((*path, i)),
                f"a claim supports {_MAX_PREFERENCES} preferences, and others have more weight, "
                "so the pod keeps this one",
                remedy=f"Keep at most {_MAX_PREFERENCES} preferences about devices.",
            )
        )
    _add_alternatives(labels, preferences[:_MAX_PREFERENCES], as_list(affinity.get(_PREFERRED)))


def _add_alternatives(
    labels: _VendorLabels, preferences: list[tuple[int, int, AskSelector]], raw: list[Value]
) -> None:
    if not preferences:
        return
    path: Path = (*_AFFINITY, _PREFERRED)
    labels.alternatives = [*(selector for _, _, selector in preferences), AllOf(())]
    labels.findings.append(
        LABEL_LOOSE.at(
            format_path(path),
            "preferred devices become alternatives of the claim in the order of their weights, if "
            "the API server supports alternatives",
        )
    )
    labels.source_fields += [
        SourceField(path, i, raw[i], asks=labels.asks)
        for i in sorted((i for _, i, _ in preferences), reverse=True)
    ]
