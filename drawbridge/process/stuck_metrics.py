"""The metrics of what is stuck, which the leading controller has."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from drawbridge.process.named_series import OTHER
from drawbridge.report.stuck.codes import CODES
from drawbridge.report.stuck.found import Stuck
from drawbridge.report.turns import take_turns

# Tenants decide how many objects there are. The counts have everything.
MAX_OBJECTS: Final = 100
# As many characters as a label of Kubernetes has.
_MAX_HOLDER: Final = 63
_LABELS: Final = ("code", "kind", "namespace", "name", "holder")


def collect_stuck(
    stuck_objects: Sequence[tuple[Stuck, float]], free: Mapping[str, int]
) -> Iterator[Metric]:
    """Return the counts, and some objects of each namespace, with the time in Unix seconds.

    `free` has the number of free devices by driver, the most important ones first.
    """
    counts = Counter(stuck.code for stuck, _ in stuck_objects)
    number = GaugeMetricFamily(
        "drawbridge_stuck_objects",
        "Claims, pods, namespaces and slices that do not go on.",
        labels=["code"],
    )
    for code in CODES:
        number.add_metric([code], counts[code])
    since = GaugeMetricFamily(
        "drawbridge_stuck_since_seconds",
        "Since when an object does not go on, in Unix seconds; of 100, in turns of namespaces.",
        labels=_LABELS,
    )
    for stuck, at in islice(take_turns(_by_namespace(stuck_objects)), MAX_OBJECTS):
        kind, namespace, name = _split(stuck)
        since.add_metric([stuck.code, kind, namespace, name, _shorten(stuck.held_by)], at)
    unused = GaugeMetricFamily(
        "drawbridge_free_devices",
        "Published devices that no claim holds and no taint keeps, by driver.",
        labels=["driver"],
    )
    drivers = [*free.items()]
    for driver, devices in drivers[:MAX_OBJECTS]:
        unused.add_metric([driver], devices)
    if others := drivers[MAX_OBJECTS:]:
        unused.add_metric([OTHER], sum(devices for _, devices in others))
    yield from (number, since, unused)


def _by_namespace(
    stuck_objects: Iterable[tuple[Stuck, float]],
) -> Iterable[Sequence[tuple[Stuck, float]]]:
    """Group as many objects of each namespace as can be shown; a namespace is of itself."""
    groups: dict[str, list[tuple[Stuck, float]]] = {}
    for entry in stuck_objects:
        kind, namespace, name = _split(entry[0])
        group = groups.setdefault(name if kind == "Namespace" else namespace, [])
        if len(group) < MAX_OBJECTS:
            group.append(entry)
    return groups.values()


def _split(stuck: Stuck) -> tuple[str, str, str]:
    """Return the kind, the namespace and the name."""
    kind, *namespaces, name = stuck.object.split("/")
    return kind, "".join(namespaces), name


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_HOLDER else f"{text[: _MAX_HOLDER - 1]}…"
