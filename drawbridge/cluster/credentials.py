"""Reads credentials and the server address from kubeconfigs or the pod's service account.

`drawbridge.cluster.kubeconfig` merges the files, and `drawbridge.cluster.identity` says what a user
sends. They are read again before they expire, and after a rejection.
"""

import asyncio
import contextlib
import logging
import os
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from drawbridge.cluster.errors import AccessError
from drawbridge.cluster.failure_log import FailureLog
from drawbridge.cluster.identity import (
    FILE_SECONDS,
    Authentication,
    decode_token,
    identify,
    impersonation_headers,
    read_authority,
)
from drawbridge.cluster.kubeconfig import Kubeconfig, SelectedContext, merge
from drawbridge.cluster.proxy import check_proxy, is_local, proxy_for
from drawbridge.cluster.tls import KeyPair, Trust, make_context

_LOG = logging.getLogger("drawbridge.cluster.credentials")
# The mount path of the service account in a pod.
SERVICE_ACCOUNT_PATH = Path("/var/run/secrets/kubernetes.io/serviceaccount")
# A plug-in can take long to fail, and each request would run it again.
FAILED_SECONDS = 5.0


@dataclass(frozen=True)
class Access:
    """The server address and credentials of a request.

    `renew_at` is the monotonic time at which to read them again. `client_certificate` is in `tls`
    already.
    """

    server: str
    headers: Mapping[str, str] = field(repr=False)
    tls: ssl.SSLContext | None
    server_name: str | None
    proxy: str | None
    renew_at: float
    client_certificate: KeyPair | None = field(default=None, repr=False)


class Credentials:
    """Reads and caches credentials; renews them before they expire or after a rejection.

    In a pod, a command uses the service account if there is no kubeconfig, as kubectl does. With
    `prefers_pod`, kubeconfigs that no argument names do not count. The first read decides.
    """

    def __init__(  # noqa: PLR0913  # all but two by name
        self,
        kubeconfig: str | None = None,
        context: str | None = None,
        *,
        prefers_pod: bool = False,
        service_account: Path = SERVICE_ACCOUNT_PATH,
        environ: Mapping[str, str] = os.environ,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kubeconfig = kubeconfig
        self._context = context
        self._prefers_pod = prefers_pod
        self._service_account = service_account
        self._environ = environ
        self._now = now
        self.namespace = "default"
        self._access: Access | None = None
        self._of_pod: bool | None = None  # the source of `_access`
        self._failure = ""  # of a renewal; it counts until `_failed_until`
        self._failed_until = 0.0
        self._lock = asyncio.Lock()
        self._tls: tuple[Trust, ssl.SSLContext] | None = None
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
        if self._now() < self._failed_until:
            raise AccessError(self._failure)
        try:
            access = await self._read_chosen()
        except AccessError as error:
            if self._access is not None:  # else the caller says it, and ends
                text = "the credentials cannot be read again: %s; the last ones stay in use"
                self._log.note("read", logging.WARNING, text, error)
                self._failure, self._failed_until = f"{error}", self._now() + FAILED_SECONDS
            raise
        self._log.succeed()
        return access

    async def _read_chosen(self) -> Access:
        # A file that is missing for a moment must not lead to another cluster.
        of_pod = self._uses_pod() if self._of_pod is None else self._of_pod
        access = self._read_service_account() if of_pod else await self._read_files()
        self._of_pod = of_pod
        return access

    def _uses_pod(self) -> bool:
        if self._kubeconfig or self._context or not self._is_pod():
            return False
        return self._prefers_pod or not self._merge_files()[0].current

    async def _read_files(self) -> Access:
        merged, exists = self._merge_files()
        if not exists:
            raise AccessError(
                f"{self._files} does not exist: set --kubeconfig or KUBECONFIG, or use the service "
                "account of a pod"
            )
        try:
            return await self._read_kubeconfig(merged.choose(self._context))
        except AccessError as error:
            raise AccessError(f"kubeconfig {self._files}: {error}") from None

    @property
    def _files(self) -> str:
        return self._kubeconfig or self._environ.get("KUBECONFIG") or "~/.kube/config"

    def _merge_files(self) -> tuple[Kubeconfig, bool]:
        """Merge the files that exist; also return whether there is one."""
        # An argument is the path of one file, the variable is a list of paths.
        names = [self._files] if self._kubeconfig else self._files.split(os.pathsep)
        files = list(_read_existing(names))
        return merge(files), bool(files)

    async def _read_kubeconfig(self, chosen: SelectedContext) -> Access:
        cluster = chosen.cluster
        server = _normalize(cluster.server)
        secure = urlsplit(server).scheme == "https"
        authority = read_authority(cluster) if secure else None
        if authority is not None and cluster.insecure_skip_tls_verify:
            raise AccessError("certificate-authority and insecure-skip-tls-verify are both set")
        identity = Authentication()
        # As kubectl, do not send a token where others can read it: a proxy is another machine.
        local = is_local(urlsplit(server).hostname or "") and not cluster.proxy_url
        if secure or local:
            identity = await identify(chosen, authority, self._environ)
        proxy = check_proxy("proxy-url", cluster.proxy_url) if cluster.proxy_url else None
        trust = Trust(not cluster.insecure_skip_tls_verify, authority, identity.pair)
        access = Access(
            server=server,
            headers=_checked({**impersonation_headers(chosen.user), **_authorization(identity)}),
            tls=self._tls_context(trust) if secure else None,
            server_name=cluster.tls_server_name or None,
            proxy=proxy or proxy_for(server, self._environ),
            renew_at=self._now() + identity.seconds,
            client_certificate=identity.pair,
        )
        self.namespace = chosen.namespace
        return access

    def _is_pod(self) -> bool:
        names = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")
        named = all(self._environ.get(each) for each in names)
        with contextlib.suppress(OSError):  # a folder that this user may not search, to Python 3.13
            return named and (self._service_account / "token").is_file()
        return False

    def _read_service_account(self) -> Access:
        try:
            return self._read_mounted()
        except (AccessError, OSError, ValueError) as error:  # also a host in brackets
            folder = self._service_account
            raise AccessError(f"cannot use the service account in {folder}: {error}") from None

    def _read_mounted(self) -> Access:
        folder = self._service_account
        token = decode_token("the token", (folder / "token").read_bytes())
        namespace = decode_token("the namespace", (folder / "namespace").read_bytes())
        host, port = (self._environ[f"KUBERNETES_SERVICE_{part}"] for part in ("HOST", "PORT"))
        server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        access = Access(
            server=server,
            headers=_checked({"Authorization": f"Bearer {token}"}),
            tls=self._tls_context(Trust(authority=(folder / "ca.crt").read_bytes())),
            server_name=None,
            proxy=proxy_for(server, self._environ),
            renew_at=self._now() + FILE_SECONDS,
        )
        self.namespace = namespace
        return access

    def _tls_context(self, trust: Trust) -> ssl.SSLContext:
        """Return the same context for equal certificates: a new one closes every connection."""
        if self._tls is None or self._tls[0] != trust:
            self._tls = trust, make_context(trust)
        return self._tls[1]


def _read_existing(names: list[str]) -> Iterator[tuple[str, bytes]]:
    """Read the files that exist once each, with absolute paths."""
    # What cannot be expanded stays: Path.expanduser raises RuntimeError.
    for path in dict.fromkeys(os.path.expanduser(name) for name in names if name):  # noqa: PTH111
        try:
            data = Path(path).read_bytes()
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:  # also a null byte
            reason = error.strerror if isinstance(error, OSError) else error
            raise AccessError(f"cannot read kubeconfig {path}: {reason}") from None
        yield os.path.abspath(path), data  # noqa: PTH100  # as client-go, without links


def _normalize(server: str) -> str:
    """Return the URL of a server; without a scheme, it is plain HTTP, as for client-go."""
    try:
        parts = urlsplit(server if "://" in server else f"http://{server}")
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        has_user = "@" in parts.netloc
    except ValueError:
        usable = has_user = False
    if has_user:  # not shown, because it can have a password
        raise AccessError("server has a user in its URL: set username and password of the user")
    if not usable or ("://" not in server and parts.path.strip("/")):
        raise AccessError(f"server {server!r} is not a URL, such as https://192.0.2.1:6443")
    return parts._replace(query="", fragment="").geturl().rstrip("/")


def _authorization(identity: Authentication) -> dict[str, str]:
    return {"Authorization": identity.authorization} if identity.authorization else {}


def _checked(headers: dict[str, str]) -> dict[str, str]:
    for name, text in headers.items():
        if not text.isprintable():  # it is not shown, because it can be the token
            raise AccessError(f"the credentials have a control character in {name}")
    return headers
