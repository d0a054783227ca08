"""Cache responses for pods, so that equal pods of one owner are translated once.

The pods of an owner differ only in their name, their index, and the volume of their service account
token. The cache key is the raw pod without these parts. Keys are compared byte for byte. Entries
and bytes are bounded.
"""

import re
from typing import Final

import msgspec
from msgspec.structs import replace

from drawbridge.bounded_cache import BoundedCache
from drawbridge.documents.values import Value
from webhook.admission.created_pod import RawPod, RawPodMetadata
from webhook.admission.namespace_scopes import NamespaceDecision
from webhook.admission.pod_responses import PodResponse

_TOKEN_VOLUME: Final = b'"name":"kube-api-access-'
_TOKEN_SIZE: Final = len(_TOKEN_VOLUME) + 6  # five letters and the quote
# These owners do not write the name of the pod into its spec.
_KINDS_WITHOUT_POD_NAME: Final = frozenset({"ReplicaSet", "DaemonSet", "ReplicationController"})
_CLAIM_NAME: Final = b'"claimName":"'
# Labels and annotations that StatefulSets and Jobs set on each pod. No dialect reads them. A quote
# inside a JSON string is escaped, so the pattern matches only keys.
_INDEX_ENTRY: Final = re.compile(
    rb'"(statefulset\.kubernetes\.io/pod-name|apps\.kubernetes\.io/pod-index'
    rb'|batch\.kubernetes\.io/job-completion-index)":"[^"\\]*"'
)


class AnswerKey(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """The parts of a pod and its namespace that decide the response."""

    namespace: str
    mode: str
    admin_access: bool
    placement: str
    queue: str  # the default one of the namespace
    metadata: bytes  # the joined fields of drawbridge.translate.essence
    spec: bytes

    @property
    def size(self) -> int:
        """The size of the raw parts in bytes."""
        return len(self.spec) + len(self.metadata)


_ESSENCE: Final = b"essence"  # no pod has this metadata


def build_key(
    pod: RawPod, raw_metadata: bytes, name: str, namespace: NamespaceDecision, queue: str = ""
) -> AnswerKey:
    """Build the key of a pod with this joined metadata in a namespace with this name.

    `queue` is the default queue of the namespace.
    """
    metadata, own_name, raw = pod.metadata, "", raw_metadata
    if metadata.owner_references:
        raw, own_name = _clear_index(raw), _name_in_spec(metadata)
    spec = _normalize_spec(bytes(pod.spec), own_name)
    decided = (namespace.mode, namespace.admin_access, namespace.placement, queue)
    return AnswerKey(name, *decided, raw, spec)


def build_essence_key(own: AnswerKey, essence: Value) -> AnswerKey:
    """Build the key for all pods with the same essence."""
    return replace(own, metadata=_ESSENCE, spec=msgspec.json.encode(essence))


def _name_in_spec(metadata: RawPodMetadata) -> str:
    """Return the name of the pod that its spec may contain. Most owners do not write it."""
    owners = metadata.owner_references or ()
    if _KINDS_WITHOUT_POD_NAME.issuperset([each.kind for each in owners]):
        return ""
    # An indexed Job sets a hostname, and a generateName that begins with it.
    return metadata.name or metadata.generate_name.removesuffix("-")


def _clear_index(entries: bytes) -> bytes:
    if b"-index" in entries or b"/pod-name" in entries:
        return _INDEX_ENTRY.sub(rb'"\1":""', entries)
    return entries


def _normalize_spec(spec: bytes, name: str) -> bytes:
    """Remove the parts of a spec that differ between the pods of an owner."""
    at = spec.find(_TOKEN_VOLUME)
    if at >= 0:
        token = spec[at : at + _TOKEN_SIZE]
        if token.endswith(b'"'):
            spec = spec.replace(token, _TOKEN_VOLUME + b'"')
    if name:
        text = name.encode("utf-8", "replace")
        spec = spec.replace(b'"hostname":"' + text + b'"', b'"hostname":""')
        if _CLAIM_NAME in spec:
            pattern = rb'("claimName":"[^"\\]*-)' + re.escape(text) + b'"'
            spec = re.sub(pattern, rb'\1"', spec)
    return spec


class AnswerCache:
    """A bounded LRU cache of responses. It is valid for one configuration and one set of facts."""

    def __init__(self, max_entries: int = 4096, max_bytes: int = 32 * 1024 * 1024) -> None:
        self.hits = 0
        self.misses = 0
        self._entries: BoundedCache[AnswerKey, PodResponse] = BoundedCache(max_entries, max_bytes)
        self._inputs: tuple[object, object] = (None, None)

    def __len__(self) -> int:
        return len(self._entries)

    def invalidate_on_change(self, context: object, other_webhooks: object) -> None:
        """Clear the cache if an input of all responses has changed."""
        last = self._inputs
        if last[0] is context and last[1] is other_webhooks:
            return
        if last != (context, other_webhooks):
            self._entries.clear()
        self._inputs = (context, other_webhooks)

    def get(self, key: AnswerKey) -> PodResponse | None:
        """Return the response for a key. Count a hit or a miss."""
        response = self.find(key)
        if response is None:
            self.misses += 1
        else:
            self.hits += 1
        return response

    def find(self, key: AnswerKey) -> PodResponse | None:
        """Return the response as `get` does. This is neither a hit nor a miss."""
        return self._entries.get(key)

    def put(self, key: AnswerKey, response: PodResponse, size: int) -> None:
        """Add a response of the given size in bytes. Evict the least recently used entries."""
        self._entries.put(key, response, cost=key.size + size)
