"""Implements `allocator.writes.cluster_writes` with `cluster`."""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from allocator.writes.cluster_writes import FINALIZER, PodName, WriteFailedError
from drawbridge.cluster.errors import ApiError, UnreachableError
from drawbridge.cluster.protobuf_metadata import MetadataEdit
from drawbridge.cluster.resources import CLAIMS, PODS, ApiObject
from drawbridge.cluster.write import ObjectVersion, Writer
from drawbridge.dra.allocation import Allocation, Consumer, to_json
from drawbridge.dra.claim import Claim, claim_reader
from drawbridge.names import ALLOCATION_ANNOTATION

_READER: Final = claim_reader()
# Decoding this many claims takes some milliseconds.
_CLAIMS_PER_STEP: Final = 100


class ApiServerWrites:
    """Reads and writes through a writer with a fence."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def read_claim(self, namespace: str, name: str) -> Claim | None:
        """Read a claim from the API server; None if it does not exist."""
        with _failures():
            found = await self._writer.read(CLAIMS, name, namespace=namespace)
            return None if found is None else _read_claim(found)

    async def list_claims(self) -> list[Claim]:
        """Return the current claims of all namespaces, without those that cannot be read.

        A claim that cannot be read was never marked here: whoever made it unreadable since then
        has changed its version as well.
        """
        with _failures():
            listed = await self._writer.list(CLAIMS)
        claims = []
        for number, each in enumerate(listed):
            if number % _CLAIMS_PER_STEP == 0:
                await asyncio.sleep(0)  # others run
            with contextlib.suppress(WriteFailedError):
                claims.append(_read_claim(each))
        return claims

    async def mark(self, claim: Claim, mark: str) -> Claim:
        """Write the allocation mark and the finalizer."""
        edit = MetadataEdit(
            added_finalizers=(FINALIZER,), annotations={ALLOCATION_ANNOTATION: mark}
        )
        return await self._edit(claim, edit)

    async def unmark(self, claim: Claim) -> Claim:
        """Remove the allocation mark, and the finalizer unless the claim is allocated."""
        removed = (FINALIZER,) if claim.status.allocation is None else ()
        edit = MetadataEdit(removed_finalizers=removed, annotations={ALLOCATION_ANNOTATION: None})
        return await self._edit(claim, edit)

    async def allocate(
        self, claim: Claim, allocation: Allocation, consumers: Sequence[Consumer]
    ) -> Claim:
        """Write the allocation and the consumers."""
        status = {"allocation": to_json(allocation), "reservedFor": list(map(to_json, consumers))}
        return await self._write_status(claim, status)

    async def set_consumers(self, claim: Claim, consumers: Sequence[Consumer]) -> Claim:
        """Write the consumers of an allocated claim."""
        return await self._write_status(claim, {"reservedFor": list(map(to_json, consumers))})

    async def deallocate(self, claim: Claim) -> Claim:
        """Remove the allocation and the consumers."""
        status = {"allocation": None, "reservedFor": None, "devices": None}
        return await self._write_status(claim, status)

    async def read_node_of(self, pod: PodName) -> str | None:
        """Return the node of a pod, empty if it has none; None if the pod does not exist."""
        with _failures():
            found = await self._writer.read(PODS, pod.name, namespace=pod.namespace)
        if found is None or found["metadata"]["uid"] != pod.uid:
            return None
        return str((found.get("spec") or {}).get("nodeName") or "")

    async def bind(self, pod: PodName, node: str) -> None:
        """Bind a pod to a node."""
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
            "target": {"kind": "Node", "name": node},
        }
        with _failures():
            await self._writer.create_subresource(PODS, pod.name, binding, "binding")

    async def _edit(self, claim: Claim, edit: MetadataEdit) -> Claim:
        with _failures():
            return _read_claim(await self._writer.edit_metadata(CLAIMS, _version(claim), edit))

    async def _write_status(self, claim: Claim, status: ApiObject) -> Claim:
        metadata = claim.metadata
        body = {
            "metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version},
            "status": status,
        }
        with _failures():
            written = await self._writer.patch(
                CLAIMS, metadata.name, body, namespace=metadata.namespace, subresource="status"
            )
            return _read_claim(written)


@contextlib.contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except UnreachableError as error:
        raise WriteFailedError(f"{error}", unknown=error.may_have_arrived) from None
    except (ValueError, RecursionError, KeyError) as error:
        # For example the page of a proxy. The request may have been processed.
        raise WriteFailedError(f"the response cannot be read: {error}", unknown=True) from None
    except ApiError as error:
        changed = error.conflict or error.not_found
        raise WriteFailedError(f"{error}", changed=changed, unknown=error.code >= 500) from None


def _version(claim: Claim) -> ObjectVersion:
    metadata = claim.metadata
    return ObjectVersion(
        metadata.namespace,
        metadata.name,
        metadata.uid,
        metadata.resource_version,
        metadata.finalizers,
    )


def _read_claim(value: ApiObject) -> Claim:
    read = _READER.read(msgspec.json.encode(value))
    if isinstance(read, tuple):
        name = f"{value['metadata'].get('namespace')}/{value['metadata'].get('name')}"
        raise WriteFailedError(f"claim {name} cannot be read: {read[0].path}: {read[0].message}")
    return read
