"""Pairs of certificate and key with the dates and the key that a test wants."""

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


class Pair(NamedTuple):
    """What stands in the two files, and when it ends."""

    certificate: bytes
    key: bytes
    end: dt.datetime


def pair(end: dt.datetime = NOW + DAY) -> Pair:
    """Make a pair that is its own authority."""
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
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), private, end)


def put(folder: Path, one: Pair) -> tuple[str, str]:
    """Write a pair where a Secret would be mounted; the two paths."""
    certificate, key = folder / "tls.crt", folder / "tls.key"
    certificate.write_bytes(one.certificate)
    key.write_bytes(one.key)
    return str(certificate), str(key)


def trusting(one: Pair) -> ssl.SSLContext:
    """Make the client's side: it believes this pair and no other, as the API server does."""
    context = ssl.create_default_context(cadata=one.certificate.decode())
    # The rig's certificates are no model of RFC 5280, and newer Pythons look closely.
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    return context
