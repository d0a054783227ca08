"""Reads kubeconfigs as client-go does: the fields, the merge of several files, relative paths.

Reads no file and no environment: `drawbridge.cluster.credentials` has the bytes of the files, and
`drawbridge.cluster.identity` reads the files that a user names.
"""

import base64
import binascii
import os.path
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from drawbridge.cluster.errors import AccessError
from drawbridge.documents.document import Source
from drawbridge.documents.read import read_documents

T = TypeVar("T")
# The extension of a cluster that its plug-ins get.
_PLUGIN_EXTENSION: Final = "client.authentication.k8s.io/exec"


class Extension(msgspec.Struct, frozen=True):
    """A value of a program that is not Kubernetes'."""

    name: str = ""
    extension: Any = None


class ClusterEntry(msgspec.Struct, frozen=True, rename="kebab"):
    """How to reach a server and what it has to show."""

    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: Sequence[Extension] = ()

    def read_plugin_extension(self) -> Any:  # noqa: ANN401  # JSON of a plug-in
        """Return what a plug-in gets to know about this cluster only; None without it."""
        named = (each.extension for each in self.extensions if each.name == _PLUGIN_EXTENSION)
        return next(named, None)


class Variable(msgspec.Struct, frozen=True):
    """A variable in the environment of a plug-in."""

    name: str = ""
    value: str = ""


class ExecConfig(msgspec.Struct, frozen=True, rename="camel"):
    """A program that returns credentials."""

    command: str = ""
    args: Sequence[str] = ()
    env: Sequence[Variable] = ()
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class AuthProvider(msgspec.Struct, frozen=True):
    """What `exec` replaced in Kubernetes 1.22."""

    name: str = ""
    config: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return f"AuthProvider({self.name})"  # without the tokens


class UserEntry(msgspec.Struct, frozen=True, rename="kebab"):
    """How a user shows who it is."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    impersonated: str = msgspec.field(default="", name="as")
    as_uid: str = ""
    as_groups: Sequence[str] = ()
    as_user_extra: Mapping[str, Sequence[str]] = {}
    username: str = ""
    password: str = ""
    auth_provider: AuthProvider | None = None
    exec: ExecConfig | None = None

    def __repr__(self) -> str:
        return "UserEntry()"  # without its secrets


class Context(msgspec.Struct, frozen=True):
    """A cluster, a user of it, and a namespace."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(msgspec.Struct, frozen=True):
    name: str = ""
    cluster: ClusterEntry = ClusterEntry()


class _NamedUser(msgspec.Struct, frozen=True):
    name: str = ""
    user: UserEntry = UserEntry()


class _NamedContext(msgspec.Struct, frozen=True):
    name: str = ""
    context: Context = Context()


class _File(msgspec.Struct, frozen=True, rename="kebab"):
    api_version: str = msgspec.field(default="v1", name="apiVersion")
    kind: str = "Config"
    current_context: str = ""
    clusters: Sequence[_NamedCluster] = ()
    users: Sequence[_NamedUser] = ()
    contexts: Sequence[_NamedContext] = ()


class SelectedContext(NamedTuple):
    """The cluster, the user and the namespace of a context; paths are absolute."""

    cluster: ClusterEntry
    user: UserEntry
    namespace: str


class Kubeconfig(NamedTuple):
    """The entries of all files; `current` is empty if no file has a current context."""

    current: str
    clusters: Mapping[str, ClusterEntry]
    users: Mapping[str, UserEntry]
    contexts: Mapping[str, Context]

    def choose(self, name: str | None = None) -> SelectedContext:
        """Return the parts of a context, or of the current one; raises AccessError.

        A context without a user is anonymous.
        """
        name = name or self.current
        if not name:
            raise AccessError("there is no current context: name one with --context")
        context = _get(self.contexts, name, f"context {name!r}")
        if not context.cluster:
            raise AccessError(f"context {name!r} has no cluster")
        of = f"of context {name!r}"
        cluster = _get(self.clusters, context.cluster, f"cluster {context.cluster!r} {of}")
        if not cluster.server:
            raise AccessError(f"cluster {context.cluster!r} has no server")
        user = UserEntry()
        if context.user:
            user = _get(self.users, context.user, f"user {context.user!r} {of}")
        return SelectedContext(cluster, user, context.namespace or "default")


def merge(files: Iterable[tuple[str, bytes]]) -> Kubeconfig:
    """Merge files with absolute paths; raises AccessError.

    The first file with a current context, and with an entry of a name, decides it.
    """
    merged = Kubeconfig("", {}, {}, {})
    for path, data in files:
        read = _parse(path, data)
        folder = os.path.dirname(path)  # noqa: PTH120  # as client-go joins paths
        merged = Kubeconfig(
            merged.current or read.current_context,
            {**_by_name(path, "clusters", _list_clusters(read, folder)), **merged.clusters},
            {**_by_name(path, "users", _list_users(read, folder)), **merged.users},
            {
                **_by_name(path, "contexts", [(each.name, each.context) for each in read.contexts]),
                **merged.contexts,
            },
        )
    return merged


def decode_data(field: str, text: str) -> bytes:
    """Decode a field in base64; raises AccessError, which names the field."""
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise AccessError(f"{field} is not valid base64") from None


def _get(entries: Mapping[str, T], name: str, words: str) -> T:
    entry = entries.get(name)
    if entry is None:
        raise AccessError(f"{words} does not exist")
    return entry


def _parse(path: str, data: bytes) -> _File:
    # Without the path: a name that ends with .json would refuse YAML.
    documents = read_documents(Source("kubeconfig", data))
    document = next((each for each in documents if not each.empty), None)
    if document is None:
        return _File()
    for located in document.findings:
        raise AccessError(f"kubeconfig {path}:{located.line}: {located.finding.message}")
    try:
        read = msgspec.convert(_without_null(document.value), _File)
    except msgspec.ValidationError as error:
        raise AccessError(f"kubeconfig {path}: {error}") from None
    if (read.api_version or "v1", read.kind or "Config") != ("v1", "Config"):
        raise AccessError(f"{path} is a {read.kind} of {read.api_version}, not a kubeconfig")
    return read


def _without_null(value: Any) -> Any:  # noqa: ANN401  # JSON
    """Leave out what is null, which means to client-go what is absent; not in an extension."""
    if isinstance(value, dict):
        return {
            key: part if key == "extension" else _without_null(part)
            for key, part in value.items()
            if part is not None
        }
    if isinstance(value, list):
        return [_without_null(part) for part in value if part is not None]
    return value


def _by_name(path: str, field: str, entries: Iterable[tuple[str, T]]) -> Mapping[str, T]:
    named: dict[str, T] = {}
    for name, entry in entries:
        if name in named:
            raise AccessError(f"kubeconfig {path}: {field} has {name!r} twice")
        named[name] = entry
    return named


def _list_clusters(read: _File, folder: str) -> list[tuple[str, ClusterEntry]]:
    return [
        (each.name, _with_paths(each.cluster, folder, "certificate_authority"))
        for each in read.clusters
    ]


def _list_users(read: _File, folder: str) -> list[tuple[str, UserEntry]]:
    listed = []
    for named in read.users:
        names = ("client_certificate", "client_key", "token_file")
        user = _with_paths(named.user, folder, *names)
        # Without a slash, the command is looked for in PATH.
        if user.exec is not None and "/" in user.exec.command:
            plugin = _with_paths(user.exec, folder, "command")
            user = msgspec.structs.replace(user, exec=plugin)
        listed.append((named.name, user))
    return listed


S = TypeVar("S", bound=msgspec.Struct)


def _with_paths(entry: S, folder: str, *fields: str) -> S:
    """Make the paths in fields absolute: they are relative to the file of their entry."""
    paths = {field: getattr(entry, field) for field in fields}
    joined = {
        field: os.path.normpath(os.path.join(folder, path))  # noqa: PTH118  # as client-go
        for field, path in paths.items()
        if path
    }
    return msgspec.structs.replace(entry, **joined)
