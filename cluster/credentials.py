"""Who we are to the API server, and where it is: kubeconfig, exec plug-ins, or the pod's account.

`kubernetes.aio` reads them; it is imported when the first session opens, because that costs a
third of a second. Knows nothing of requests: `Access` is what one of them needs.
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

from cluster.errors import AccessError
from cluster.proxy import proxy_for

# Where a pod finds its account, unless a test says otherwise.
POD = Path("/var/run/secrets/kubernetes.io/serviceaccount")
# The kubelet renews a token file long before the old token ends; client-go looks once a minute too.
FILE_SECONDS = 60.0
# A plug-in's credentials are renewed this long before they end.
EARLY_SECONDS = 60.0
PLUGIN_SECONDS = 60.0


@dataclass(frozen=True)
class Access:
    """What a request needs; `due` is when, by the monotonic clock, to ask for it again."""

    server: str
    headers: Mapping[str, str] = field(repr=False)
    tls: ssl.SSLContext | None
    server_name: str | None
    proxy: str | None
    due: float


class Credentials:
    """Reads credentials, remembers them, renews them when they are due or were refused."""

    def __init__(
        self,
        kubeconfig: str | None = None,
        context: str | None = None,
        *,
        pod: Path = POD,
        environ: Mapping[str, str] = os.environ,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._context = context
        self._pod = pod
        self._environ = environ
        self._now = now
        self._in_pod = not kubeconfig and not context and _is_pod(pod, environ)
        usual = environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
        self._files = kubeconfig or usual
        self.namespace = "default"
        self._access: Access | None = None
        self._lock = asyncio.Lock()
        self._tls: tuple[object, ssl.SSLContext] | None = None

    async def access(self) -> Access:
        """Give what a request needs now; AccessError where there has never been any."""
        access = self._access
        if access is not None and self._now() < access.due:
            return access
        try:
            return await self.renew(access)
        except AccessError:
            # A plug-in that fails now may have given what is still good; the server will say.
            if access is None:
                raise
            return access

    async def renew(self, refused: Access | None) -> Access:
        """Read the credentials again, unless somebody else did since `refused` was given."""
        async with self._lock:
            if self._access is None or self._access is refused:
                self._access = await (self._of_pod() if self._in_pod else self._of_files())
            return self._access

    async def _of_pod(self) -> Access:
        from kubernetes.aio.client import Configuration  # noqa: PLC0415  # a third of a second
        from kubernetes.aio.config.config_exception import ConfigException  # noqa: PLC0415  # same
        from kubernetes.aio.config.incluster_config import (  # noqa: PLC0415  # same
            InClusterConfigLoader,
        )

        found = Configuration()
        token, authority = str(self._pod / "token"), str(self._pod / "ca.crt")
        try:
            loader = InClusterConfigLoader(  # type: ignore[no-untyped-call]
                token, authority, environ=self._environ
            )
            loader.load_and_set(found)  # type: ignore[no-untyped-call]
            self.namespace = (self._pod / "namespace").read_text(encoding="utf-8").strip()
        except (ConfigException, OSError) as error:
            raise AccessError(f"the pod's account in {self._pod} cannot be used: {error}") from None
        return self._made(found, {}, self._now() + FILE_SECONDS)

    async def _of_files(self) -> Access:
        from kubernetes.aio.client import Configuration  # noqa: PLC0415  # a third of a second
        from kubernetes.aio.config import load_kube_config  # noqa: PLC0415  # same

        if not _exists(self._files):
            raise AccessError(
                f"there is no kubeconfig at {self._files}, and this is not a pod with an account: "
                "name one with --kubeconfig or KUBECONFIG"
            )
        found = Configuration()
        with _complaints() as said:
            try:
                async with asyncio.timeout(PLUGIN_SECONDS):
                    loader: Any = await load_kube_config(  # type: ignore[no-untyped-call]
                        self._files, self._context, found, persist_config=False
                    )
            except Exception as error:  # noqa: BLE001  # whatever a malformed file leads to
                reason = str(error) or type(error).__name__
                raise AccessError(f"kubeconfig {self._files}: {reason}") from None
        user: dict[str, Any] = loader._user.value if loader._user else {}  # noqa: SLF001  # no other way
        if "exec" in user and not found.api_key and not found.cert_file:
            command = user["exec"].get("command")
            told = "; ".join(said) or "it gave no credentials"
            raise AccessError(f"kubeconfig {self._files}: plug-in {command}: {told}")
        self.namespace = loader.current_context["context"].get("namespace") or "default"
        return self._made(found, user, self._due(loader, user))

    def _due(self, loader: Any, user: Mapping[str, Any]) -> float:  # noqa: ANN401  # untyped library
        expiry = getattr(loader, "exec_plugin_expiry", None)
        if expiry is not None:
            left: float = (expiry - dt.datetime.now(dt.UTC)).total_seconds()
            return self._now() + max(left - EARLY_SECONDS, left / 2, 1.0)
        return self._now() + FILE_SECONDS if "tokenFile" in user else float("inf")

    def _made(self, found: Any, user: Mapping[str, Any], due: float) -> Access:  # noqa: ANN401  # untyped library
        headers = _impersonation(user)
        scheme, _, secret = str(found.api_key.get("BearerToken", "")).partition(" ")
        if secret:
            # A token file may end with a newline, which no header may.
            headers["Authorization"] = f"{scheme.capitalize()} {secret.strip()}"
        server = str(found.host).rstrip("/")
        return Access(
            server=server,
            headers=headers,
            tls=self._context_of(found) if server.startswith("https") else None,
            server_name=found.tls_server_name or None,
            proxy=found.proxy or proxy_for(server, self._environ),
            due=due,
        )

    def _context_of(self, found: Any) -> ssl.SSLContext:  # noqa: ANN401  # untyped library
        """Give the same context for the same certificates: a new one costs every connection."""
        files = (found.ssl_ca_cert, found.cert_file, found.key_file)
        try:
            key = (found.verify_ssl, *(Path(name).read_bytes() if name else b"" for name in files))
            if self._tls is None or self._tls[0] != key:
                self._tls = key, _tls(found.verify_ssl, *files)
        except (OSError, ssl.SSLError) as error:
            raise AccessError(f"certificates of {found.host}: {error}") from None
        return self._tls[1]


def _tls(
    verify: bool,  # noqa: FBT001  # a field of the kubeconfig
    authority: str | None,
    certificate: str | None,
    key: str | None,
) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority)
    # Python 3.13 asks authorities for extensions that those of many clusters do not have, and
    # that no other client of Kubernetes asks for.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if certificate:
        context.load_cert_chain(certificate, key)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _is_pod(pod: Path, environ: Mapping[str, str]) -> bool:
    return bool(environ.get("KUBERNETES_SERVICE_HOST")) and (pod / "token").exists()


def _exists(files: str) -> bool:
    return any(Path(name).expanduser().exists() for name in files.split(os.pathsep) if name)


def _impersonation(user: Mapping[str, Any]) -> dict[str, str]:
    """Read whom a kubeconfig speaks for, which kubernetes.aio would pass over in silence."""
    headers = {}
    if user.get("as"):
        headers["Impersonate-User"] = str(user["as"])
    if user.get("as-uid"):
        headers["Impersonate-Uid"] = str(user["as-uid"])
    if user.get("as-groups") or user.get("as-user-extra"):
        raise AccessError("as-groups and as-user-extra in a kubeconfig are not supported")
    return headers


@contextlib.contextmanager
def _complaints() -> Iterator[list[str]]:
    """Collect what kubernetes.aio only logs: when a plug-in fails, it goes on without."""
    said: list[str] = []
    handler = logging.Handler(logging.ERROR)
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("kubernetes.aio.config.kube_config")
    before = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield said
    finally:
        logger.removeHandler(handler)
        logger.propagate = before
