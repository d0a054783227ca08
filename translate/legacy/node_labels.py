"""Where pods choose nodes by labels about devices, the devices are chosen instead.

With the device plugin its labels go, and such a pod would wait for ever. Takes the node selector
and the node affinity of a pod that asks for such devices apart, and leaves every other pod alone.
What a label means stands elsewhere.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from documents.paths import Path, show
from documents.values import Value
from dra.finding import Finding
from translate.legacy.asks import Ask, Kind, Reading, Share, Trace
from translate.legacy.codes import LABEL_DROPPED, LABEL_KEPT, LABEL_LOOSE, REPLICAS_ARE_ONE
from translate.legacy.dialects import gpu_labels
from translate.legacy.dialects.gpu_labels import Meaning, Term
from translate.legacy.pod_view import PodView, items, mapping, text
from translate.legacy.selectors import AllOf, AnyOf, Memory, Not, Selector

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_AFFINITY: Path = ("spec", "affinity", "nodeAffinity")
# What asks for whole GPUs become on nodes whose GPUs are divided.
_DIVIDED = {"nvidia/whole": "nvidia/mig-single", "amd/whole": "amd/partition"}
# A claim takes at most eight alternatives, and the last one is "whichever".
_MOST_PREFERENCES = 7


@dataclass(slots=True)
class _Found:
    """What is collected for the devices of one vendor."""

    vendor: str
    names: tuple[str, ...]
    selectors: list[Selector] = field(default_factory=list)
    alternatives: list[Selector] = field(default_factory=list)
    traces: list[Trace] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    profile: str = ""
    replica: bool = False

    def take(self, meaning: Meaning) -> None:
        self.selectors += meaning.selectors
        self.findings += meaning.findings
        self.profile = meaning.profile or self.profile
        self.replica = meaning.replica or self.replica


def narrowed(pod: PodView, asks: tuple[Ask, ...]) -> Reading:
    """Return the asks for GPUs with what the pod's node labels say of them."""
    found: list[Finding] = []
    traces: list[Trace] = []
    if not (pod.spec.get("nodeSelector") or pod.spec.get("affinity")):
        return Reading(asks)
    for vendor in ("nvidia", "amd", "intel"):
        names = tuple(ask.name for ask in asks if _concerns(ask, vendor))
        if not names:
            continue
        one = _Found(vendor, names)
        _node_selector(pod, one)
        _required(pod, one)
        _preferred(pod, one)
        asks = tuple(_applied(ask, one) if ask.name in names else ask for ask in asks)
        found += one.findings
        traces += one.traces
    return Reading(asks, tuple(traces), tuple(found))


def _concerns(ask: Ask, vendor: str) -> bool:
    return ask.kind is Kind.GPU and not ask.passthrough and ask.vendor in {vendor, ""}


def _applied(ask: Ask, found: _Found) -> Ask:
    said = bool(found.traces or found.selectors)
    ask = replace(
        ask,
        vendor=found.vendor if said else ask.vendor,
        selectors=(*ask.selectors, *_narrower(ask, found)),
        alternatives=(*ask.alternatives, *found.alternatives),
        labelled=bool(found.traces),
    )
    if ask.row not in _DIVIDED:
        return ask
    # The bare name stands for what the node's configuration makes of it.
    if found.profile:
        profile = gpu_labels.partition(found.profile)
        ask = replace(
            ask, row=_DIVIDED[ask.row], partition=True, selectors=(*ask.selectors, profile)
        )
    if found.replica:
        if ask.count != 1:
            found.findings.append(
                REPLICAS_ARE_ONE.at("spec", f"{ask.count} replicas are read as one share")
            )
        row = "nvidia/mig-replica" if found.profile else "nvidia/replica"
        ask = replace(ask, row=row, count=1, share=Share(replica=True))
    return ask


def _narrower(ask: Ask, found: _Found) -> list[Selector]:
    """Return what the labels say of this ask; a partition's memory is not the GPU's."""
    said = [s for s in found.selectors if not (ask.partition and _of_memory(s))]
    if len(said) < len(found.selectors):
        found.findings.append(
            LABEL_DROPPED.at(
                "spec", "the memory of a whole GPU, which the label has, says nothing of partitions"
            )
        )
    return said


def _of_memory(selector: Selector) -> bool:
    if isinstance(selector, Not):
        return _of_memory(selector.what)
    if isinstance(selector, AnyOf | AllOf):
        return any(map(_of_memory, selector.these))
    return isinstance(selector, Memory)


def _node_selector(pod: PodView, found: _Found) -> None:
    path: Path = ("spec", "nodeSelector")
    selector = mapping(pod.spec.get("nodeSelector"))
    terms = [
        Term(key, "In", (text(value),), show((*path, key)))
        for key, value in selector.items()
        if gpu_labels.vendor(key) == found.vendor
    ]
    for term, meaning in _meanings(terms):
        found.take(meaning)
        if not meaning.kept:
            value = selector[term.key]
            found.traces.append(Trace(path, term.key, value, asks=found.names))


def _meanings(terms: Iterable[Term]) -> list[tuple[Term, Meaning]]:
    """Read terms that all hold; the two numbers of a compute capability belong together."""
    listed = list(terms)
    major = next((term for term in listed if term.key == gpu_labels.MAJOR), None)
    minor = next((term for term in listed if term.key == gpu_labels.MINOR), None)
    pair = gpu_labels.compute(major, minor) if major and minor else None
    if pair is None:
        return [(term, gpu_labels.meaning(term)) for term in listed]
    return [
        (term, pair if term is major else Meaning() if term is minor else gpu_labels.meaning(term))
        for term in listed
    ]


@dataclass(frozen=True, slots=True)
class _Entry:
    """One entry of a node affinity, taken apart."""

    meanings: tuple[Meaning, ...]
    rest: dict[str, Value]
    empty: bool

    @property
    def selectors(self) -> tuple[Selector, ...]:
        return tuple(s for meaning in self.meanings for s in meaning.selectors)

    @property
    def special(self) -> bool:
        return any(meaning.profile or meaning.replica for meaning in self.meanings)


def _entry(raw: Value, path: Path, vendor: str) -> _Entry:
    entry = dict(mapping(raw))
    expressions = items(entry.get("matchExpressions"))
    terms: dict[int, Term] = {}
    for i, one in enumerate(expressions):
        said = mapping(one)
        key = said.get("key")
        if isinstance(key, str) and gpu_labels.vendor(key) == vendor:
            values = tuple(map(text, items(said.get("values"))))
            where = show((*path, "matchExpressions", i))
            terms[i] = Term(key, text(said.get("operator")), values, where)
    read = {term.where: meaning for term, meaning in _meanings(terms.values())}
    rest = [one for i, one in enumerate(expressions) if i not in terms or read[terms[i].where].kept]
    if rest or "matchExpressions" not in entry:
        kept = entry | ({"matchExpressions": rest} if rest else {})
    else:
        kept = {key: value for key, value in entry.items() if key != "matchExpressions"}
    fields = bool(items(entry.get("matchFields")))
    return _Entry(tuple(read.values()), kept, not expressions and not fields)


def _required(pod: PodView, found: _Found) -> None:
    affinity = mapping(mapping(pod.spec.get("affinity")).get("nodeAffinity"))
    value = affinity.get(_REQUIRED)
    raw = items(mapping(value).get("nodeSelectorTerms"))
    path: Path = (*_AFFINITY, _REQUIRED, "nodeSelectorTerms")
    entries = [_entry(one, (*path, i), found.vendor) for i, one in enumerate(raw)]
    if not any(entry.meanings for entry in entries):
        return
    same = all(entry.rest == entries[0].rest for entry in entries)
    plain = not any(entry.special or entry.empty for entry in entries)
    if len(entries) == 1:
        for meaning in entries[0].meanings:
            found.take(meaning)
    elif same and plain:
        found.findings += [f for e in entries for m in e.meanings for f in m.findings]
        if all(entry.selectors for entry in entries):
            ways = dict.fromkeys(gpu_labels.both(entry.selectors) for entry in entries)
            found.selectors.append(next(iter(ways)) if len(ways) == 1 else AnyOf(tuple(ways)))
    else:
        _shared(found, entries, show((*_AFFINITY, _REQUIRED)))
        return
    if entries[0].rest != raw[0] or len(raw) > 1:
        _replace(found, value, entries[0].rest)


def _replace(found: _Found, value: Value, rest: Mapping[str, Value]) -> None:
    """Leave one entry of what is not about devices, or none: an empty one matches no node."""
    left: Value = None
    if any(items(part) for part in rest.values()):
        left = {**mapping(value), "nodeSelectorTerms": [dict(rest)]}
    found.traces.append(Trace(_AFFINITY, _REQUIRED, value, instead=left, asks=found.names))


def _shared(found: _Found, entries: list[_Entry], where: str) -> None:
    """Keep an "or" that cannot be said of devices; what all its entries say holds all the same."""
    first, *others = (entry.selectors for entry in entries)
    found.selectors += [s for s in first if all(s in other for other in others)]
    found.findings.append(
        LABEL_KEPT.at(
            where, "its entries differ in more than labels of devices, so the affinity stays"
        )
    )


def _preferred(pod: PodView, found: _Found) -> None:
    """Read wishes about devices, the heaviest first; as alternatives their weights are lost."""
    affinity = mapping(mapping(pod.spec.get("affinity")).get("nodeAffinity"))
    path: Path = (*_AFFINITY, _PREFERRED)
    wishes: list[tuple[int, int, Selector]] = []
    for i, raw in enumerate(items(affinity.get(_PREFERRED))):
        wish = mapping(raw)
        entry = _entry(wish.get("preference"), (*path, i, "preference"), found.vendor)
        if not entry.meanings:
            continue
        weight = wish.get("weight")
        whole = not any(items(part) for part in entry.rest.values())
        if whole and entry.selectors and not entry.special and isinstance(weight, int):
            wishes.append((-weight, i, gpu_labels.both(entry.selectors)))
        else:
            found.findings.append(
                LABEL_KEPT.at(show((*path, i)), "the wish is about more than devices, and stays")
            )
    wishes.sort(key=lambda wish: wish[:2])
    for _, i, _ in wishes[_MOST_PREFERENCES:]:
        found.findings.append(
            LABEL_KEPT.at(show((*path, i)), "a claim has room for seven wishes; this one stays")
        )
    _alternatives(found, wishes[:_MOST_PREFERENCES], items(affinity.get(_PREFERRED)))


def _alternatives(found: _Found, wishes: list[tuple[int, int, Selector]], raw: list[Value]) -> None:
    if not wishes:
        return
    path: Path = (*_AFFINITY, _PREFERRED)
    found.alternatives = [*(selector for _, _, selector in wishes), AllOf(())]
    found.findings.append(
        LABEL_LOOSE.at(
            show(path),
            "wishes about devices are tried in the order of their weights, before all else",
        )
    )
    found.traces += [
        Trace(path, i, raw[i], asks=found.names)
        for i in sorted((i for _, i, _ in wishes), reverse=True)
    ]
