"""Read ResourceClaimTemplates from a watch cache, and send other requests to the API server."""

import contextlib
import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from drawbridge.agreement.owned_templates import has_owned_name
from drawbridge.api_error import ApiError
from drawbridge.cluster.cache import Cache
from drawbridge.cluster.client import ResourceClient
from drawbridge.cluster.failure_log import FailureLog
from drawbridge.cluster.resources import ApiObject
from drawbridge.cluster.store import CachedObject
from drawbridge.documents.values import Value
from drawbridge.names import FIELD_MANAGER, USED_ANNOTATION
from webhook.admission.protocols import CachedTemplate, TemplateStore

_LOG: Final = logging.getLogger("webhook.server.template_store")


class _Name(msgspec.Struct, frozen=True):
    name: str = ""


class _ManagedFields(msgspec.Struct, frozen=True):
    manager: str = ""


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    labels: Mapping[str, str] | None = None
    annotations: Mapping[str, str] | None = None
    managed_fields: tuple[_ManagedFields, ...] | None = None


class _Named(msgspec.Struct, frozen=True):
    metadata: _Name


class _Template(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()
    spec: msgspec.Raw = msgspec.Raw(b"null")


class WatchedTemplate(msgspec.Struct, frozen=True):
    """What is kept of a template.

    `content` is JSON with what is compared, or None if it is not kept. `is_ahead` tells whether
    Drawbridge created the template, and no pod has used it yet.
    """

    content: bytes | None = None
    is_ahead: bool = False


_NAMED: Final = msgspec.json.Decoder(_Named)
_TEMPLATE: Final = msgspec.json.Decoder(_Template)
_FOREIGN: Final = WatchedTemplate()


def read_watched_template(raw: bytes) -> WatchedTemplate:
    """Read a template; raises msgspec.DecodeError. Nothing is kept of one that is not ours.

    Any client can set our label, but no pod uses a template with another kind of name from us.
    """
    if not has_owned_name(_NAMED.decode(raw).metadata.name):
        return _FOREIGN
    template = _TEMPLATE.decode(raw)
    labels, annotations = template.metadata.labels or {}, template.metadata.annotations or {}
    compared = {"metadata": {"labels": labels, "annotations": annotations}, "spec": template.spec}
    # What `drawbridge translate` prints and others apply has another field manager.
    managers = {each.manager for each in template.metadata.managed_fields or ()}
    is_ahead = FIELD_MANAGER in managers and USED_ANNOTATION not in annotations
    return WatchedTemplate(msgspec.json.encode(compared), is_ahead)


def reduce_template(template: WatchedTemplate) -> WatchedTemplate:
    """Return what must be known of a template: that it exists, and whether it is created ahead."""
    return WatchedTemplate(None, template.is_ahead)


class WatchedTemplateStore:
    """Reads templates from the watch cache, and sends other requests to the API server."""

    def __init__(self, cache: Cache[WatchedTemplate], client: ResourceClient[ApiObject]) -> None:
        self._cache = cache
        self._client = client
        # Requests of others succeed all the same, so that no end is told.
        self._log = FailureLog(_LOG, "")
        self._unused: dict[str, set[str]] = {}  # names by namespace
        cache.subscribe(self._on_template)

    def get_cached(self, namespace: str, name: str) -> CachedTemplate | None:
        """Return the template in the watch cache, or None if it is not there."""
        cached = self._cache.get(name, namespace)
        return None if cached is None else CachedTemplate(cached.version, cached.value.content)

    def count_unused(self, namespace: str) -> int:
        """Count the templates that Drawbridge created in a namespace and no pod has used yet."""
        return len(self._unused.get(namespace, ()))

    def _on_template(
        self,
        before: CachedObject[WatchedTemplate] | None,
        after: CachedObject[WatchedTemplate] | None,
    ) -> None:
        template = after or before
        if template is None or not has_owned_name(template.name):
            return
        names = self._unused.setdefault(template.namespace, set())
        if after is not None and after.value.is_ahead:
            names.add(template.name)
        else:
            names.discard(template.name)
        if not names:
            del self._unused[template.namespace]

    async def create(
        self, namespace: str, value: Mapping[str, Value], *, dry_run: bool = False
    ) -> Mapping[str, Value] | None:
        """Create a template and return the stored object, or None if the name exists."""
        with self._logged("create", namespace, _read_name(value)):
            try:
                return await self._client.create({**value}, namespace, dry_run=dry_run)
            except ApiError as error:
                if error.exists:
                    return None
                raise

    async def read(self, namespace: str, name: str) -> Mapping[str, Value] | None:
        """Read a template from the API server, or return None if it does not exist."""
        with self._logged("read", namespace, name):
            return await self._client.read(name, namespace)

    async def touch(self, namespace: str, name: str, annotations: Mapping[str, str]) -> None:
        """Merge annotations into a template. A missing template is not an error."""
        with self._logged("touch", namespace, name):
            try:
                await self._client.merge(
                    name, {"metadata": {"annotations": annotations}}, namespace
                )
            except ApiError as error:
                if not error.not_found:
                    raise

    @contextlib.contextmanager
    def _logged(self, action: str, namespace: str, name: str) -> Iterator[None]:
        """Log a failed request: a tenant can cause one with each pod, such as by a quota."""
        try:
            yield
        except ApiError as error:
            text, about, level = "template request failed", (action, namespace), logging.WARNING
            fields = {"action": action, "namespace": namespace, "name": name, "reason": f"{error}"}
            self._log.fail(error, text, level=level, about=about, **fields)
            raise


_: type[TemplateStore] = WatchedTemplateStore


def _read_name(value: Mapping[str, Any]) -> str:
    metadata = value.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, Mapping) else ""
