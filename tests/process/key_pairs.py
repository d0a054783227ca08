"""Create certificates and keys for tests."""

import datetime as dt
import ssl
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

NAME = "drawbridge-webhook.drawbridge-system.svc"
NOW = dt.datetime.now(dt.UTC).replace(microsecond=0)
DAY = dt.timedelta(days=1)


class KeyPair(NamedTuple):
    """A certificate, its key, and the end of its validity."""

    certificate: bytes
    key: bytes
    end: dt.datetime


def create_pair(end: dt.datetime = NOW + DAY) -> KeyPair:
    """Create a self-signed certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(NOW, end) - DAY)
        .not_valid_after(end)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), private, end)


def write_pair(folder: Path, pair: KeyPair) -> tuple[str, str]:
    """Write a pair to files as in a mounted Secret. Return the two paths."""
    certificate, key = folder / "tls.crt", folder / "tls.key"
    certificate.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    return str(certificate), str(key)


def create_client_context(pair: KeyPair) -> ssl.SSLContext:
    """Create a client context that trusts only this certificate, like the API server."""
    context = ssl.create_default_context(cadata=pair.certificate.decode())
    # The test certificates do not follow RFC 5280 strictly, which newer Python versions check.
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    return context
