"""Answers that were given before, so that equal pods of one owner are translated once.

Pods of one owner differ in a name, in the volume of their service account's token, in their number.
A key is the pod's own bytes without these; it is compared byte for byte, so that no two pods are
taken for each other by chance. Only an answer that names its pod is kept for that name alone.
Bounded in entries and in bytes. Knows nothing of what is answered.
"""

import re
from collections import OrderedDict
from typing import Final, NamedTuple

import msgspec

from documents.values import Value
from webhook.admission.created_pod import Bare, Head
from webhook.admission.pods import Answer

_TOKEN: Final = b'"name":"kube-api-access-'
_TOKEN_SIZE: Final = len(_TOKEN) + 6  # five letters and the quote
_NAMELESS: Final = frozenset({"ReplicaSet", "DaemonSet", "ReplicationController"})
_CLAIM: Final = b'"claimName":"'
# What StatefulSets and Jobs write on each of their pods; no dialect reads it. A quote within a text
# is escaped, so these can only be keys.
_NUMBERED: Final = re.compile(
    rb'"(statefulset\.kubernetes\.io/pod-name|apps\.kubernetes\.io/pod-index'
    rb'|batch\.kubernetes\.io/job-completion-index)":"[^"\\]*"'
)


class Key(NamedTuple):
    """What an answer depends on, beside configuration, facts and surroundings."""

    namespace: str
    mode: str
    labels: bytes
    annotations: bytes
    spec: bytes
    name: str = ""  # of a pod without an owner, if its answer names it

    def of(self, name: str) -> "Key":
        """Give the key of the one pod of that name."""
        return self._replace(name=name)


_ESSENTIAL: Final = b"essence"  # no labels are written so


def key(pod: Bare, namespace: str, mode: str) -> Key:
    """Make the key of a pod."""
    head = pod.metadata
    labels, annotations = bytes(head.labels), bytes(head.annotations)
    if not head.owner_references:
        return Key(namespace, mode, labels, annotations, _spec(bytes(pod.spec), ""))
    return Key(
        namespace,
        mode,
        _unnumbered(labels),
        _unnumbered(annotations),
        _spec(bytes(pod.spec), _own_name(head)),
    )


def called(pod: Bare) -> str:
    """Give the name by which an answer may call the pod: of those with an owner there are more."""
    return "" if pod.metadata.owner_references else pod.metadata.name


def essential(own: Key, essence: Value) -> Key:
    """Make the key of all pods with this essence, for an answer that is the same for all."""
    return Key(own.namespace, own.mode, _ESSENTIAL, b"", msgspec.json.encode(essence))


def _own_name(head: Head) -> str:
    """Give the name that a spec may hold as its pod's own; most owners give their pods none."""
    if _NAMELESS.issuperset([each.kind for each in head.owner_references or ()]):
        return ""
    # An indexed Job gives its pods a host name, and a name that begins with that.
    return head.name or head.generate_name.removesuffix("-")


def _unnumbered(texts: bytes) -> bytes:
    if b"-index" in texts or b"/pod-name" in texts:
        return _NUMBERED.sub(rb'"\1":""', texts)
    return texts


def _spec(spec: bytes, name: str) -> bytes:
    """Leave out of a spec what is the pod's own and decides nothing."""
    at = spec.find(_TOKEN)
    if at >= 0:
        token = spec[at : at + _TOKEN_SIZE]
        if token.endswith(b'"'):
            spec = spec.replace(token, _TOKEN + b'"')
    if name:
        text = name.encode("utf-8", "replace")
        spec = spec.replace(b'"hostname":"' + text + b'"', b'"hostname":""')
        if _CLAIM in spec:
            of_pod = re.escape(text)
            spec = re.sub(rb'("claimName":"[^"\\]*-)' + of_pod + b'"', rb'\1"', spec)
    return spec


class Memory:
    """The answers of late, for as long as what decides them stays the same."""

    def __init__(self, entries: int = 4096, most: int = 32 * 1024 * 1024) -> None:
        self.hits = 0
        self.misses = 0
        self._entries = entries
        self._most = most
        self._bytes = 0
        self._kept: OrderedDict[Key, tuple[Answer, int]] = OrderedDict()
        self._by: tuple[object, object] = (None, None)

    def __len__(self) -> int:
        return len(self._kept)

    def under(self, given: object, others: object) -> None:
        """Forget everything if what decides answers is not what it was."""
        last = self._by
        if last[0] is given and last[1] is others:
            return
        if last != (given, others):
            self._kept.clear()
            self._bytes = 0
        self._by = (given, others)

    def get(self, key: Key, name: str = "") -> Answer | None:
        """Return the answer that was given for this key, or to the pod of this name."""
        answer = self.alike(key, name)
        if answer is None:
            self.misses += 1
        else:
            self.hits += 1
        return answer

    def alike(self, key: Key, name: str = "") -> Answer | None:
        """Return the answer for pods of this essence; what is counted are pods."""
        held = self._kept.get(key)
        if held is None and name:
            key = key.of(name)
            held = self._kept.get(key)
        if held is None:
            return None
        self._kept.move_to_end(key)
        return held[0]

    def put(self, key: Key, answer: Answer, size: int) -> None:
        """Keep an answer of so many bytes; the one used least lately goes first."""
        size += len(key.spec) + len(key.annotations) + len(key.labels)
        if size > self._most // 8:
            return
        held = self._kept.pop(key, None)
        self._bytes += size - (held[1] if held else 0)
        self._kept[key] = (answer, size)
        while len(self._kept) > self._entries or self._bytes > self._most:
            _, (_, gone) = self._kept.popitem(last=False)
            self._bytes -= gone
