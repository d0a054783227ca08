"""The running pods as they are after the migration, and whether they fit then."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, NamedTuple

from drawbridge.audit.model import FitSummary, PodWithoutRoom
from drawbridge.audit.objects import namespace_of, text_at
from drawbridge.audit.outcomes import Decider
from drawbridge.documents.patch import apply_edits
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_mapping
from drawbridge.dra.claim import Template, template_reader
from drawbridge.ledger.pods import FINISHED, Pod, pod_reader
from drawbridge.ledger.still_fits import Fit, StillFits
from drawbridge.report.plugin_units import count_units

# Returns the nodes that would have the devices of a pod if nobody else used any; the templates are
# those of its claims that are not in the cluster.
FindDevices = Callable[[Pod, Sequence[Template]], frozenset[str]]
_MAX_SHOWN: Final = 50
# In files, tenants may write what the API server would refuse.
_MAX_NAME: Final = 400
_MAX_WHY: Final = 500
_OF_KEPT: Final = "the node keeps its plugin, and no driver has devices for claims there"


class RunningPods(NamedTuple):
    """The running pods with their claims, and the templates for them.

    Also how many are unreadable, and how many need no devices.
    """

    pods: tuple[Pod, ...]
    templates: tuple[Template, ...]
    unread: int = 0
    without_devices: int = 0


def translate_running(decider: Decider) -> RunningPods:
    """Return the running pods as the migration leaves them, each on its node.

    Those that are being deleted need no room then.
    """
    reader, unread, without = pod_reader(), 0, 0
    translated: list[Pod] = []
    templates: dict[tuple[str, str], Template] = {}
    for pod in decider.objects.pods:
        ends = text_at(pod, "metadata", "deletionTimestamp")
        over = ends or text_at(pod, "status", "phase") in FINISHED
        if over or not text_at(pod, "spec", "nodeName"):
            continue
        name = namespace_of(pod)
        outcome = decider.decide(pod, decider.objects.find_namespace(name))
        value = apply_edits(pod, outcome.edits) if outcome is not None else pod
        for template in outcome.templates if outcome is not None else ():
            key = name, text_at(dict(template), "metadata", "name")
            for added in () if key in templates else read_template(dict(template), name):
                templates[key] = added
        read = reader.read(value)
        if isinstance(read, Pod):
            translated.append(read)
            without += not (read.spec.resource_claims or outcome or count_units(pod))
        else:
            unread += 1
    return RunningPods(tuple(translated), tuple(templates.values()), unread, without)


def read_template(value: Value, namespace: str) -> Iterator[Template]:
    """Yield a template of a translation, as it is in a namespace."""
    fields = as_mapping(value)
    metadata: Value = {**as_mapping(get_value(value, ("metadata",))), "namespace": namespace}
    read = template_reader().read({**fields, "metadata": metadata})
    if isinstance(read, Template):
        yield read


def summarize_fit(answer: StillFits, running: RunningPods, kept: Collection[str]) -> FitSummary:
    """Return the numbers of pods that fit, and the first pods that do not.

    Nodes that are `kept` keep their plugin, so that claims find no device there.
    """
    return FitSummary(
        answer.packed.pods,
        len(answer.in_place.nodes),
        len(answer.packed.nodes),
        tuple(_without_room(answer.in_place, kept)),
        tuple(_without_room(answer.packed, ())),
        running.unread,
        running.without_devices,
    )


def _without_room(fit: Fit, kept: Collection[str]) -> Iterator[PodWithoutRoom]:
    for refusal in fit.refused[:_MAX_SHOWN]:
        why = "; ".join(dict.fromkeys(reason.message for reason in refusal.reasons))
        why = _OF_KEPT if refusal.node in kept else why
        yield PodWithoutRoom(refusal.pod[:_MAX_NAME], refusal.node[:_MAX_NAME], why[:_MAX_WHY])
