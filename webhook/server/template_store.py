"""ResourceClaimTemplates over a watch and a writer.

Fulfils `webhook.admission.protocols.Store`.

Every error of the world becomes a StoreError. Knows nothing of what templates say.
"""

import logging
from collections.abc import Mapping
from typing import Any, Final

import aiohttp
import msgspec

from cluster.cache import Cache
from cluster.resources import TEMPLATES
from cluster.session import ApiError
from cluster.write import Writer
from documents.values import Value
from runtime.logs import say
from webhook.admission.protocols import StoreError

_LOG: Final = logging.getLogger("webhook.server.template_store")
_WORLD: Final = (ApiError, aiohttp.ClientError, OSError, TimeoutError)
_REMEMBERED: Final = 4096
_PASSING: Final = (401, 408, 409, 429)


class Store:
    """Looks into the cache first, and asks the API server for the rest."""

    def __init__(self, cache: Cache[Any], writer: Writer) -> None:
        self._cache = cache
        self._writer = writer
        self._read: dict[tuple[str, str], tuple[bytes, Mapping[str, Value]]] = {}

    def seen(self, namespace: str, name: str) -> Mapping[str, Value] | None:
        """What the watch last said of a template; None where it said nothing."""
        kept = self._cache.get(name, namespace)
        if kept is None:
            self._read.pop((namespace, name), None)
            return None
        known = self._read.get((namespace, name))
        if known is None or known[0] is not kept.raw:
            if len(self._read) >= _REMEMBERED:
                self._read.clear()
            known = (kept.raw, msgspec.json.decode(kept.raw))
            self._read[namespace, name] = known
        return known[1]

    async def create(
        self, namespace: str, value: Mapping[str, Value], *, dry_run: bool = False
    ) -> Mapping[str, Value] | None:
        """Create it and return it as stored; None where one of that name is there."""
        try:
            return await self._writer.create(TEMPLATES, value, namespace=namespace, dry_run=dry_run)
        except ApiError as error:
            if error.reason == "AlreadyExists":
                return None
            raise _failed("create", namespace, _name(value), error) from None
        except _WORLD as error:
            raise _failed("create", namespace, _name(value), error) from None

    async def read(self, namespace: str, name: str) -> Mapping[str, Value] | None:
        """Read it from the API server; None where there is none."""
        try:
            return await self._writer.read(TEMPLATES, name, namespace=namespace)
        except _WORLD as error:
            raise _failed("read", namespace, name, error) from None

    async def touch(self, namespace: str, name: str, annotations: Mapping[str, str]) -> None:
        """Merge annotations into it; that it is gone is no error."""
        body = {"metadata": {"annotations": annotations}}
        try:
            await self._writer.patch(TEMPLATES, name, body, namespace=namespace)
        except ApiError as error:
            if error.code != 404:
                raise _failed("touch", namespace, name, error) from None
        except _WORLD as error:
            raise _failed("touch", namespace, name, error) from None


def _failed(what: str, namespace: str, name: str, error: Exception) -> StoreError:
    text = "a template could not be reached"
    say(_LOG, logging.WARNING, text, what=what, namespace=namespace, name=name, reason=str(error))
    # Who is not let in by mistake, or comes too often, may be let in the next time.
    refused = isinstance(error, ApiError) and 400 <= error.code < 500 and error.code not in _PASSING
    return StoreError(f"{what} {namespace}/{name}: {error}", f"{error}" if refused else "")


def _name(value: Mapping[str, Any]) -> str:
    metadata = value.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, Mapping) else ""
