"""What the API server trusts of an installation, and whether its processes serve it.

Looks at the objects and connects to the processes as the API server does, with nothing of the
product.
"""

import base64
import socket
import ssl

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from e2e.installed.installation import NAMESPACE, SERVICE, Installation
from e2e.installed.manifest import JSON
from e2e.installed.replica import Replica

HOOKS = "/apis/admissionregistration.k8s.io/v1"
CONFIGURATIONS = (
    f"{HOOKS}/mutatingwebhookconfigurations/drawbridge",
    f"{HOOKS}/validatingwebhookconfigurations/drawbridge",
)
SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
SECRET = f"{SECRETS}/drawbridge-ca"
EVENTS = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
SECONDS = 5.0


def read_secret(cluster: Installation) -> dict[str, str]:
    """Return the decoded data of the Secret of the CA."""
    data = cluster.plane.admin.get(SECRET).get("data") or {}
    return {name: base64.b64decode(text).decode() for name, text in data.items()}


def read_signer(cluster: Installation) -> str:
    """Return the certificate of the CA that signs now."""
    return read_secret(cluster).get("tls.crt", "")


def read_bundles(cluster: Installation) -> set[str]:
    """Return the different bundles of all webhooks."""
    hooks: list[JSON] = []
    for path in CONFIGURATIONS:
        hooks += cluster.plane.admin.get(path)["webhooks"]
    encoded = (each["clientConfig"].get("caBundle", "") for each in hooks)
    return {base64.b64decode(text).decode() for text in encoded}


def find_handshake_problem(replica: Replica, bundle: str) -> str:
    """Connect as an API server that trusts a bundle; return why that fails, or nothing."""
    try:
        context = ssl.create_default_context(cadata=bundle)
        address = ("127.0.0.1", replica.port("admission"))
        with (
            socket.create_connection(address, SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=SERVICE),
        ):
            return ""
    except (OSError, ValueError) as problem:
        return f"{replica.name}: {problem}"


def find_trust_problem(cluster: Installation) -> str:
    """Return what is wrong with Secret, bundles or certificates, or nothing."""
    data = read_secret(cluster)
    missing = {"tls.crt", "tls.key", "ca.crt"} - data.keys()
    if missing:
        return f"the Secret lacks {missing}"
    if not is_pair(data["tls.crt"], data["tls.key"]):
        return "the key in the Secret does not belong to its certificate"
    if (bundles := read_bundles(cluster)) != {data["ca.crt"]}:
        return f"{len(bundles)} bundles, and not only that of the Secret"
    problems = (find_handshake_problem(each, data["ca.crt"]) for each in cluster.webhooks)
    return next(filter(None, problems), "")


def is_pair(certificate: str, key: str) -> bool:
    """Return whether a key in PEM form belongs to a certificate."""
    try:
        private = serialization.load_pem_private_key(key.encode(), None)
        served = x509.load_pem_x509_certificate(certificate.encode())
    except ValueError:
        return False
    return bool(private.public_key() == served.public_key())


def count_refused_certificates(cluster: Installation) -> int:
    """Return how many calls of our webhooks the API servers logged as refused certificates."""
    count = 0
    for log in cluster.plane.folder.glob("kube-apiserver*.log"):
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
            count += "drawbridge.dev" in line and ("x509:" in line or "tls:" in line)
    return count


def read_reasons(cluster: Installation) -> set[str]:
    """Return the reasons of the events about the Secret."""
    events = cluster.plane.admin.get(EVENTS)["items"]
    return {each["reason"] for each in events if each["regarding"]["name"] == "drawbridge-ca"}


def write_secret(cluster: Installation, data: JSON | None, **metadata: object) -> None:
    """Replace the Secret as another client does; `metadata` replaces its labels."""
    live = cluster.plane.admin.get(SECRET)
    live["metadata"] |= metadata
    live["data"] = data
    cluster.plane.admin.replace(SECRET, live)


def delete_secret(cluster: Installation) -> None:
    """Delete the Secret."""
    cluster.plane.admin.delete(SECRET)
