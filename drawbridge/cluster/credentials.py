"""Reads credentials and the server address from a kubeconfig or the pod's service account.

`kubernetes.aio` reads them, including exec plug-ins. It is imported when the first session opens,
because the import takes a third of a second.
"""

import asyncio
import contextlib
import datetime as dt
import logging
import os
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drawbridge.cluster.errors import AccessError
from drawbridge.cluster.failure_log import FailureLog
from drawbridge.cluster.proxy import check_proxy, proxy_for

_LOG = logging.getLogger("drawbridge.cluster.credentials")
# The mount path of the service account in a pod.
SERVICE_ACCOUNT_PATH = Path("/var/run/secrets/kubernetes.io/serviceaccount")
# The kubelet renews a token file long before the old token expires; client-go also reads it again
# once a minute.
FILE_SECONDS = 60.0
# The credentials of a plug-in are renewed this long before they expire.
EARLY_SECONDS = 60.0
PLUGIN_SECONDS = 60.0


@dataclass(frozen=True)
class Access:
    """The server address and credentials of a request.

    `renew_at` is the monotonic time at which to read them again. `client_certificate` has the files
    of the certificate and its key, which `tls` contains already.
    """

    server: str
    headers: Mapping[str, str] = field(repr=False)
    tls: ssl.SSLContext | None
    server_name: str | None
    proxy: str | None
    renew_at: float
    client_certificate: tuple[str, str | None] | None = field(default=None, repr=False)


class Credentials:
    """Reads and caches credentials; renews them before they expire or after a rejection."""

    def __init__(
        self,
        kubeconfig: str | None = None,
        context: str | None = None,
        *,
        service_account: Path = SERVICE_ACCOUNT_PATH,
        environ: Mapping[str, str] = os.environ,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._context = context
        self._service_account = service_account
        self._environ = environ
        self._now = now
        if _expand("~") == "~":  # kubernetes.aio cannot be imported without a home
            os.environ["HOME"] = "/"  # as container runtimes do
        self._in_pod = not kubeconfig and not context and _is_pod(service_account, environ)
        default = environ.get("KUBECONFIG") or _expand("~/.kube/config")
        self._kubeconfig = kubeconfig or default
        self.namespace = "default"
        self._access: Access | None = None
        self._lock = asyncio.Lock()
        self._tls: tuple[object, ssl.SSLContext] | None = None
        self._log = FailureLog(_LOG, "the credentials can be read again after %.0f s", now)

    async def access(self) -> Access:
        """Return the current access; raises AccessError if credentials were never read."""
        access = self._access
        if access is not None and self._now() < access.renew_at:
            return access
        try:
            return await self.renew(access)
        except AccessError:
            # The credentials that the plug-in returned earlier may still be valid.
            if access is None:
                raise
            return access

    async def renew(self, rejected: Access | None) -> Access:
        """Read the credentials again, unless another task did so after `rejected` was returned."""
        async with self._lock:
            if self._access is None or self._access is rejected:
                self._access = await self._read()
            return self._access

    async def _read(self) -> Access:
        """Read the credentials. A failure is logged here: all requests of the process have it."""
        try:
            read = self._read_service_account() if self._in_pod else self._read_kubeconfig()
            access = await read
        except AccessError as error:
            if self._access is not None:  # else the caller says it, and ends
                text = "the credentials cannot be read again: %s; the last ones stay in use"
                self._log.note("read", logging.WARNING, text, error)
            raise
        self._log.succeed()
        return access

    async def _read_service_account(self) -> Access:
        from kubernetes.aio.client import Configuration  # noqa: PLC0415  # a third of a second
        from kubernetes.aio.config.config_exception import ConfigException  # noqa: PLC0415  # same
        from kubernetes.aio.config.incluster_config import (  # noqa: PLC0415  # same
            InClusterConfigLoader,
        )

        configuration = Configuration()
        token, authority = (
            str(self._service_account / "token"),
            str(self._service_account / "ca.crt"),
        )
        try:
            loader = InClusterConfigLoader(  # type: ignore[no-untyped-call]
                token, authority, environ=self._environ
            )
            loader.load_and_set(configuration)  # type: ignore[no-untyped-call]
            namespace = (self._service_account / "namespace").read_text(encoding="utf-8").strip()
        except (ConfigException, OSError, ValueError) as error:  # also what is not UTF-8
            raise self._unusable(error) from None
        access = self._make_access(configuration, {}, self._now() + FILE_SECONDS)
        # The loader refuses an empty token, but not a blank one.
        if not namespace or "Authorization" not in access.headers:
            raise self._unusable("the file with the token or the namespace is empty")
        self.namespace = namespace
        return access

    def _unusable(self, reason: object) -> AccessError:
        return AccessError(f"cannot use the service account in {self._service_account}: {reason}")

    async def _read_kubeconfig(self) -> Access:
        from kubernetes.aio.client import Configuration  # noqa: PLC0415  # a third of a second
        from kubernetes.aio.config import load_kube_config  # noqa: PLC0415  # same

        if not _any_exists(self._kubeconfig):
            raise AccessError(
                f"{self._kubeconfig} does not exist, and this process does not run in a pod with a "
                "service account: set --kubeconfig or KUBECONFIG"
            )
        configuration = Configuration()
        with _collect_errors() as errors:
            try:
                async with asyncio.timeout(PLUGIN_SECONDS):
                    loader: Any = await load_kube_config(  # type: ignore[no-untyped-call]
                        self._kubeconfig, self._context, configuration, persist_config=False
                    )
            except Exception as error:  # noqa: BLE001  # a malformed file can raise anything
                reason = str(error) or type(error).__name__
                raise AccessError(f"kubeconfig {self._kubeconfig}: {reason}") from None
        user: dict[str, Any] = loader._user.value if loader._user else {}  # noqa: SLF001  # no other way
        if "exec" in user and not configuration.api_key and not configuration.cert_file:
            command = user["exec"].get("command")
            reason = "; ".join(errors) or "it returned no credentials"
            raise AccessError(f"kubeconfig {self._kubeconfig}: plug-in {command}: {reason}")
        self.namespace = loader.current_context["context"].get("namespace") or "default"
        return self._make_access(configuration, user, self._renewal_time(loader, user))

    def _renewal_time(self, loader: Any, user: Mapping[str, Any]) -> float:  # noqa: ANN401  # untyped library
        expiry = getattr(loader, "exec_plugin_expiry", None)
        if expiry is not None:
            left: float = (expiry - dt.datetime.now(dt.UTC)).total_seconds()
            return self._now() + max(left - EARLY_SECONDS, left / 2, 1.0)
        return self._now() + FILE_SECONDS if "tokenFile" in user else float("inf")

    def _make_access(self, configuration: Any, user: Mapping[str, Any], renew_at: float) -> Access:  # noqa: ANN401  # untyped library
        headers = _impersonation_headers(user)
        scheme, _, secret = str(configuration.api_key.get("BearerToken", "")).partition(" ")
        # A token file may end with a newline, but a header value must not.
        if secret := secret.strip():
            headers["Authorization"] = f"{scheme.capitalize()} {secret}"
        for name, text in headers.items():
            if not text.isprintable():  # it is not shown, because it can be the token
                raise AccessError(f"the credentials have a control character in {name}")
        server = str(configuration.host).rstrip("/")
        proxy = configuration.proxy and check_proxy("proxy-url", str(configuration.proxy))
        return Access(
            server=server,
            headers=headers,
            tls=self._tls_context(configuration) if server.startswith("https") else None,
            server_name=configuration.tls_server_name or None,
            proxy=proxy or proxy_for(server, self._environ),
            renew_at=renew_at,
            client_certificate=(configuration.cert_file, configuration.key_file)
            if configuration.cert_file
            else None,
        )

    def _tls_context(self, configuration: Any) -> ssl.SSLContext:  # noqa: ANN401  # untyped library
        """Return the same context for equal certificates: a new one closes every connection."""
        files = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
        try:
            key = (
                configuration.verify_ssl,
                *(Path(name).read_bytes() if name else b"" for name in files),
            )
            if self._tls is None or self._tls[0] != key:
                self._tls = key, _make_tls_context(configuration.verify_ssl, *files)
        except (OSError, ssl.SSLError) as error:
            raise AccessError(
                f"cannot load the certificates of {configuration.host}: {error}"
            ) from None
        return self._tls[1]


def _make_tls_context(
    verify: bool,  # noqa: FBT001  # a field of the kubeconfig
    authority: str | None,
    certificate: str | None,
    key: str | None,
) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority)
    # Python 3.13 requires CA certificate extensions that many clusters' CAs do not have and that
    # no other Kubernetes client requires.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if certificate:
        context.load_cert_chain(certificate, key)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _is_pod(service_account: Path, environ: Mapping[str, str]) -> bool:
    return bool(environ.get("KUBERNETES_SERVICE_HOST")) and (service_account / "token").exists()


def _any_exists(files: str) -> bool:
    return any(Path(_expand(name)).exists() for name in files.split(os.pathsep) if name)


def _expand(path: str) -> str:
    """Expand `~`; what cannot be expanded stays."""
    return os.path.expanduser(path)  # noqa: PTH111  # Path.expanduser raises RuntimeError


def _impersonation_headers(user: Mapping[str, Any]) -> dict[str, str]:
    """Read the impersonation fields of a kubeconfig, which kubernetes.aio ignores."""
    headers = {}
    if user.get("as"):
        headers["Impersonate-User"] = str(user["as"])
    if user.get("as-uid"):
        headers["Impersonate-Uid"] = str(user["as-uid"])
    if user.get("as-groups") or user.get("as-user-extra"):
        raise AccessError("as-groups and as-user-extra in a kubeconfig are not supported")
    return headers


@contextlib.contextmanager
def _collect_errors() -> Iterator[list[str]]:
    """Collect the errors that kubernetes.aio only logs when a plug-in fails."""
    errors: list[str] = []
    handler = logging.Handler(logging.ERROR)
    handler.emit = lambda record: errors.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("kubernetes.aio.config.kube_config")
    before = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield errors
    finally:
        logger.removeHandler(handler)
        logger.propagate = before
