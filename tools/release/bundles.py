"""Signs statements, and reads what is signed: Sigstore bundles 0.3 with a DSSE envelope. Pure.

cosign reads and writes the same format. With a key of one's own, a bundle names that key; with a
short-lived certificate, as in the workflow, cosign writes it.
"""

import base64
import binascii
import hashlib
import json
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

MEDIA_TYPE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
_PAYLOAD: Final = "application/vnd.in-toto+json"


class UnusableKeyError(Exception):
    """A key cannot be used; the text says why."""


class BundleError(Exception):
    """A bundle cannot be read, or its signature is not that of the key."""


def load_private(pem: bytes, password: str) -> ec.EllipticCurvePrivateKey:
    """Read a private key."""
    try:
        key = load_pem_private_key(pem, password.encode() or None)
    except (TypeError, ValueError) as problem:
        raise UnusableKeyError(f"the private key cannot be read: {problem}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.name != "secp256r1":
        raise UnusableKeyError("the private key is not of the curve P-256")
    return key


def load_public(pem: bytes) -> ec.EllipticCurvePublicKey:
    """Read a public key."""
    try:
        key = load_pem_public_key(pem)
    except ValueError as problem:
        raise UnusableKeyError(f"the public key cannot be read: {problem}") from None
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name != "secp256r1":
        raise UnusableKeyError("the public key is not of the curve P-256")
    return key


def sign(statement: bytes, key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return the bundle of a statement."""
    signature = key.sign(_authenticated(_PAYLOAD, statement), ec.ECDSA(SHA256()))
    encoded = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    bundle = {
        "mediaType": MEDIA_TYPE,
        "verificationMaterial": {
            "publicKey": {"hint": _encode(hashlib.sha256(encoded).digest())},
        },
        "dsseEnvelope": {
            "payload": _encode(statement),
            "payloadType": _PAYLOAD,
            "signatures": [{"sig": _encode(signature)}],
        },
    }
    return json.dumps(bundle, sort_keys=True, separators=(",", ":")).encode()


def read(bundle: bytes) -> tuple[bytes, bytes]:
    """Return statement and signature of a bundle, whoever signed it; BundleError if unreadable."""
    try:
        document: Any = json.loads(bundle)
        envelope = document["dsseEnvelope"]
        (signature,) = envelope["signatures"]
        kinds = (document["mediaType"], envelope["payloadType"])
        payload = base64.b64decode(envelope["payload"], validate=True)
        signed = base64.b64decode(signature["sig"], validate=True)
    except (KeyError, TypeError, ValueError, binascii.Error) as problem:
        raise BundleError(f"no bundle with one signature: {problem!r}") from None
    if kinds != (MEDIA_TYPE, _PAYLOAD):
        raise BundleError(f"the bundle has the types {kinds}, expected {(MEDIA_TYPE, _PAYLOAD)}")
    return payload, signed


def verify(bundle: bytes, key: ec.EllipticCurvePublicKey) -> bytes:
    """Return the statement of a bundle; BundleError unless the key signed it."""
    statement, signature = read(bundle)
    try:
        key.verify(signature, _authenticated(_PAYLOAD, statement), ec.ECDSA(SHA256()))
    except InvalidSignature:
        raise BundleError("the signature is not that of the key") from None
    return statement


def _authenticated(kind: str, payload: bytes) -> bytes:
    """Return what DSSE signs: type and payload with their lengths."""
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()
