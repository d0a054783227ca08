"""Explain in words why a certificate and a private key cannot be used together.

OpenSSL reports most of these problems as `PEM lib`.
"""

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

_DER = serialization.Encoding.DER
_PUBLIC = serialization.PublicFormat.SubjectPublicKeyInfo


def find_pair_problem(certificate: bytes, key: bytes, names: tuple[str, str]) -> str:
    """Return the first problem of a pair, or an empty string; `names` are those of the parts."""
    try:
        served = x509.load_pem_x509_certificates(certificate)[0]
    except ValueError:
        return f"{names[0]} does not start with a readable certificate in PEM form"
    try:
        private = serialization.load_pem_private_key(key, None)
    except TypeError:
        return f"the private key in {names[1]} is encrypted; use a key without a password"
    except (ValueError, ImportError):
        return f"{names[1]} does not contain a readable private key in PEM form"
    if _encode(private.public_key()) != _encode(served.public_key()):
        return f"the private key in {names[1]} does not belong to the certificate in {names[0]}"
    return ""


def _encode(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(_DER, _PUBLIC)
