"""Read and write ResourceClaimTemplates through a watch cache and a writer.

Implements `webhook.admission.protocols.TemplateStore`. API errors become TemplateStoreError.
"""

import logging
from collections.abc import Mapping
from typing import Any, Final

import aiohttp
import msgspec

from drawbridge.agreement.owned_templates import has_owned_name
from drawbridge.cluster.cache import Cache, CachedObject
from drawbridge.cluster.resources import TEMPLATES
from drawbridge.cluster.session import ApiError
from drawbridge.cluster.write import Writer
from drawbridge.documents.values import Value
from drawbridge.names import USED_ANNOTATION
from drawbridge.process.logs import log_event
from webhook.admission.protocols import TemplateStoreError

_LOG: Final = logging.getLogger("webhook.server.template_store")
_REQUEST_ERRORS: Final = (ApiError, aiohttp.ClientError, OSError, TimeoutError)
_MAX_DECODED: Final = 4096
_RETRIABLE_CODES: Final = (401, 408, 409, 429)


class AnnotatedMetadata(msgspec.Struct, frozen=True):
    """The annotations of a template."""

    annotations: Mapping[str, str] | None = None


class WatchedTemplate(msgspec.Struct, frozen=True):
    """A template with its annotations only. The cache keeps its raw bytes."""

    metadata: AnnotatedMetadata = AnnotatedMetadata()


class WatchedTemplateStore:
    """Reads templates from the watch cache, and sends other requests to the API server."""

    def __init__(self, cache: Cache[WatchedTemplate], writer: Writer) -> None:
        self._cache = cache
        self._writer = writer
        self._unused: dict[str, set[str]] = {}  # names by namespace
        cache.subscribe(self._on_template)
        self._decoded: dict[tuple[str, str], tuple[bytes, Mapping[str, Value]]] = {}

    def get_cached(self, namespace: str, name: str) -> Mapping[str, Value] | None:
        """Return the template from the watch cache, or None if the cache does not have it."""
        cached = self._cache.get(name, namespace)
        if cached is None:
            self._decoded.pop((namespace, name), None)
            return None
        decoded = self._decoded.get((namespace, name))
        if decoded is None or decoded[0] is not cached.raw:
            if len(self._decoded) >= _MAX_DECODED:
                self._decoded.clear()
            decoded = (cached.raw, msgspec.json.decode(cached.raw))
            self._decoded[namespace, name] = decoded
        return decoded[1]

    def count_unused(self, namespace: str) -> int:
        """Count the templates of a namespace that no pod has used yet."""
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
        if after is not None and USED_ANNOTATION not in (after.value.metadata.annotations or {}):
            names.add(template.name)
        else:
            names.discard(template.name)
        if not names:
            del self._unused[template.namespace]

    async def create(
        self, namespace: str, value: Mapping[str, Value], *, dry_run: bool = False
    ) -> Mapping[str, Value] | None:
        """Create a template and return the stored object, or None if the name exists."""
        try:
            return await self._writer.create(TEMPLATES, value, namespace=namespace, dry_run=dry_run)
        except ApiError as error:
            if error.reason == "AlreadyExists":
                return None
            raise _convert_error("create", namespace, _read_name(value), error) from None
        except _REQUEST_ERRORS as error:
            raise _convert_error("create", namespace, _read_name(value), error) from None

    async def read(self, namespace: str, name: str) -> Mapping[str, Value] | None:
        """Read a template from the API server, or return None if it does not exist."""
        try:
            return await self._writer.read(TEMPLATES, name, namespace=namespace)
        except _REQUEST_ERRORS as error:
            raise _convert_error("read", namespace, name, error) from None

    async def touch(self, namespace: str, name: str, annotations: Mapping[str, str]) -> None:
        """Merge annotations into a template. A missing template is not an error."""
        body = {"metadata": {"annotations": annotations}}
        try:
            await self._writer.patch(TEMPLATES, name, body, namespace=namespace)
        except ApiError as error:
            if error.code != 404:
                raise _convert_error("touch", namespace, name, error) from None
        except _REQUEST_ERRORS as error:
            raise _convert_error("touch", namespace, name, error) from None


def _convert_error(action: str, namespace: str, name: str, error: Exception) -> TemplateStoreError:
    text = "template request failed"
    log_event(
        _LOG,
        logging.WARNING,
        text,
        action=action,
        namespace=namespace,
        name=name,
        reason=str(error),
    )
    # Authentication errors, conflicts and rate limits are temporary. Other client errors are not.
    is_final = (
        isinstance(error, ApiError)
        and 400 <= error.code < 500
        and error.code not in _RETRIABLE_CODES
    )
    message = f"{action} {namespace}/{name}: {error}"
    return TemplateStoreError(message, f"{error}" if is_final else "")


def _read_name(value: Mapping[str, Any]) -> str:
    metadata = value.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, Mapping) else ""
