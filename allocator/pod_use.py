"""The few fields of pods that the allocator keeps, for all pods of a cluster."""

import msgspec

FINISHED = ("Succeeded", "Failed")


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    deletion_timestamp: str | None = None


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    priority: int = 0
    scheduler_name: str = ""


class _Status(msgspec.Struct):
    phase: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class PodUse(msgspec.Struct, frozen=True):
    """A pod. It is terminating from its deletion until the API server removes it."""

    namespace: str
    name: str
    uid: str
    node: str = ""
    priority: int = 0
    scheduler: str = ""
    terminating: bool = False
    finished: bool = False

    @property
    def uses_devices(self) -> bool:
        """Whether the pod keeps its devices for some time to come."""
        return not (self.terminating or self.finished)


def decode_pod(raw: bytes) -> PodUse:
    """Decode the JSON of a pod; raises an error of msgspec."""
    pod = _DECODER.decode(raw)
    return PodUse(
        pod.metadata.namespace,
        pod.metadata.name,
        pod.metadata.uid,
        pod.spec.node_name,
        pod.spec.priority,
        pod.spec.scheduler_name,
        terminating=pod.metadata.deletion_timestamp is not None,
        finished=pod.status.phase in FINISHED,
    )


_DECODER = msgspec.json.Decoder(_Pod)
