"""A Secret as the watch shows it; of that of the CA, what this process remembers."""

from collections.abc import Callable
from typing import Any, Final

from certs.authority import NONE, Authorities, find_rotation
from certs.rotation import combine
from certs.secret import SecretReading, SecretState, read_secret
from drawbridge.cluster.cache import Cache
from drawbridge.cluster.history import Identity
from drawbridge.cluster.resources import SECRETS
from drawbridge.cluster.session import Session
from drawbridge.cluster.store import CachedObject
from drawbridge.names import CA_SECRET
from drawbridge.process import metrics

JSONObject = dict[str, Any]
_CachedSecret = CachedObject[JSONObject]
_UNKNOWN: Final = SecretReading(SecretState.ABSENT, problem=f"Secret {CA_SECRET} is not read yet")


class WatchedSecret:
    """One Secret of the own namespace, which its cache keeps in sync."""

    def __init__(self, session: Session, name: str) -> None:
        # RBAC grants one name, and a watch of one name needs the selector.
        fields = f"metadata.name={name}"
        self.namespace, self.name = session.namespace, name
        self.cache = Cache(session, SECRETS, dict, namespace=self.namespace, fields=fields)
        self.now = session.clock.now
        self._listeners: list[Callable[[], None]] = []
        self.cache.subscribe(self._change)

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after each change; return what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    @property
    def live(self) -> JSONObject | None:
        """The Secret; None if it does not exist."""
        cached = self.cache.get(self.name, self.namespace)
        return None if cached is None else cached.value

    def _change(self, _before: _CachedSecret | None, _after: _CachedSecret | None) -> None:
        for listener in self._listeners:
            listener()


class WatchedAuthorities(WatchedSecret):
    """The Secret of the CA.

    `remembered` is what counts after the last change: a deleted or damaged Secret does not make
    this process forget a CA that it has seen.
    """

    def __init__(self, session: Session) -> None:
        super().__init__(session, CA_SECRET)
        self._key = self.namespace, CA_SECRET
        self.remembered: Authorities = NONE
        self.is_time_certain = session.clock.is_certain
        self._written: JSONObject | None = None
        # A list can be without what was written, of which the watch has never told.
        self.cache.subscribe_to_lists(lambda *_: self._change(None, None))

    @property
    def live(self) -> JSONObject | None:
        """The Secret: as this process wrote it, until the watch has reached that version."""
        return self._written if self.cache.expects(self._key) else super().live

    @property
    def reading(self) -> SecretReading:
        """The authorities that the Secret holds."""
        if not self.cache.synced and self.live is None:
            return _UNKNOWN
        return read_secret(self.live)

    def remember(self, written: JSONObject | None, authorities: Authorities) -> None:
        """Remember what this process decided, and what it wrote, if anything."""
        if written is not None and self.cache.expect(self._key, _identify(written)):
            self._written = written
        self.remembered = authorities
        self._set_metrics()

    def _change(self, before: _CachedSecret | None, after: _CachedSecret | None) -> None:
        self.remembered = combine(self.reading, self.remembered, self.now())
        self._set_metrics()
        super()._change(before, after)

    def _set_metrics(self) -> None:
        signer = self.remembered.current
        metrics.AUTHORITY.set(signer.certificate.not_after if signer else 0)
        metrics.AUTHORITY_ROTATION.set(find_rotation(signer.certificate) if signer else 0)
        metrics.AUTHORITY_SECRET_VALID.set(self.reading.state is SecretState.VALID)


def _identify(value: JSONObject) -> Identity:
    return Identity(value["metadata"]["uid"], value["metadata"]["resourceVersion"])
