"""Reports annotations by which a device plugin selected devices, and which no claim has.

HAMi has such annotations for each vendor. A dialect removes those that it reads; the others stay in
the pod, where nothing reads them once the pod requests the devices of their vendor by a claim. As
of November 2026, HAMi 2.10.0.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from drawbridge.documents.values import Value, as_mapping
from drawbridge.finding import Finding
from drawbridge.translate.legacy.asks import Ask
from drawbridge.translate.legacy.codes import MEANING_CHANGES, RESTRICTION_LOST
from drawbridge.translate.legacy.pod_view import annotation_path

_SELECTING: Final = re.compile(
    r"(?P<domain>[a-z0-9.-]+)/(no-?)?use-(?P<word>[\w.]*?)-?(type|uuid|gputype|gpuuuid|biren|va)"
    r"|(?P<mode>huawei\.com)/vnpu-mode"
)
_HAMI: Final = "hami.io"  # with the word of a vendor: hami.io/use-Ascend910B-uuid
# The domains of annotations that differ from those of resources.
_DOMAINS: Final = {"baidu.com": "kunlunxin.com", "mthreads.ai": "mthreads.com"}
# Koordinator's webhook (1.8.0) gives other names to resources by it, whenever it sees the pod.
_REPLACES: Final = "pod.koordinator.sh/replace-resources"


def report_selecting(pod: Value, asks: Iterable[Ask]) -> Iterator[Finding]:
    """Yield a finding for each annotation of a pod that selected devices of translated asks."""
    annotations = as_mapping(as_mapping(as_mapping(pod).get("metadata")).get("annotations"))
    matches = {key: match for key in annotations if (match := _SELECTING.fullmatch(key))}
    if _REPLACES in annotations:
        what = (
            "Koordinator replaces resources by it, also those that a translation reads or removes"
        )
        yield MEANING_CHANGES.at(annotation_path(_REPLACES), f"{_REPLACES}: {what}")
    if not matches:
        return
    names = list(dict.fromkeys(name for ask in asks for name in ask.resources))
    for key, match in matches.items():
        domain = match["mode"] or match["domain"]
        if any(_is_about(domain, match["word"] or "", name) for name in names):
            yield RESTRICTION_LOST.at(
                annotation_path(key),
                f"{key} selects devices for the device plugin, and the claim does not have it",
            )


def _is_about(domain: str, word: str, name: str) -> bool:
    """Whether an annotation selects the devices that a resource counts."""
    if domain == _HAMI:
        return bool(word) and word.lower() in name.lower()
    return name.startswith(f"{_DOMAINS.get(domain, domain)}/")
