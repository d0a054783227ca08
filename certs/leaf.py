"""Serving certificates: how one is signed and read, and when it is due."""

import datetime as dt
from collections.abc import Sequence
from typing import Final

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certs.authority import (
    Authority,
    describe_certificate,
    encode_key,
    read_certificates,
    usage_of_key,
)

_NAME: Final = "drawbridge"
# In seconds.
LEAF_LIFE: Final = 7 * 86_400.0
# The part of the life that is left when a leaf is due.
_DUE: Final = 1 / 3


class Leaf(msgspec.Struct, frozen=True):
    """A serving certificate and its key in PEM form; `issuer` is the PEM form of its CA."""

    certificate: str
    key: str
    issuer: str
    not_after: float

    def __repr__(self) -> str:
        """Name the end of the validity, and never the key: the text can reach a log."""
        return f"Leaf(not_after={self.not_after})"


def names_of_service(service: str, namespace: str) -> tuple[str, ...]:
    """Return the DNS names of a Service; the API server uses the one that ends with `.svc`."""
    return f"{service}.{namespace}.svc", f"{service}.{namespace}", service


def sign_leaf(authority: Authority, names: Sequence[str], now: float, life: float) -> Leaf:
    """Sign a P-256 certificate for DNS names; draws random numbers.

    Its validity lies within that of the authority, and starts with it, so that no difference
    between clocks makes it invalid before it ends.
    """
    issuer = x509.load_pem_x509_certificate(authority.certificate.pem.encode())
    signer = serialization.load_pem_private_key(authority.key.encode(), None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise TypeError("an authority has an elliptic curve key")
    key = ec.generate_private_key(ec.SECP256R1())
    ends = dt.datetime.fromtimestamp(min(now + life, authority.certificate.not_after), dt.UTC)
    builder = _add_extensions(x509.CertificateBuilder(), names, key, signer)
    certificate = (
        builder.subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _NAME)]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(issuer.not_valid_before_utc)
        .not_valid_after(ends)
        .sign(signer, hashes.SHA256())
    )
    described = describe_certificate(certificate)
    return Leaf(described.pem, encode_key(key), authority.certificate.pem, described.not_after)


def _add_extensions(
    builder: x509.CertificateBuilder,
    names: Sequence[str],
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
) -> x509.CertificateBuilder:
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    above = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    return (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage_of_key(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(list(map(x509.DNSName, names))), critical=False)
        .add_extension(identifier, critical=False)
        .add_extension(above, critical=False)
    )


def read_leaf(certificate: bytes, key: bytes, issuer: bytes) -> Leaf:
    """Read a leaf whose key belongs to it; raises ValueError unless the issuer signed it."""
    served, signer = map(x509.load_pem_x509_certificate, (certificate, issuer))
    try:
        served.verify_directly_issued_by(signer)
    except (InvalidSignature, TypeError):
        raise ValueError("the certificate is not signed by its issuer") from None
    described = describe_certificate(served)
    return Leaf(described.pem, key.decode(), describe_certificate(signer).pem, described.not_after)


def find_renewal(leaf: Leaf, life: float) -> float:
    """Return when a leaf with this life is due. Its authority can have a shorter one."""
    (issuer,) = read_certificates(leaf.issuer.encode())
    return leaf.not_after - min(life, issuer.life) * _DUE


def needs_new_leaf(leaf: Leaf | None, authority: Authority, now: float, life: float) -> bool:
    """Whether to sign again: with another authority, or after two thirds of the life."""
    if not authority.certificate.is_valid(now):
        return False
    if leaf is None or leaf.issuer != authority.certificate.pem:
        return True
    # A leaf that lives as long as its authority cannot be renewed by it.
    return now >= find_renewal(leaf, life) and leaf.not_after < authority.certificate.not_after
