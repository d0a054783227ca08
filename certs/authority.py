"""Certificate authorities: what one consists of, how it is read strictly, and how it is made."""

import datetime as dt
import hashlib
from collections.abc import Iterable
from typing import Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_NAME: Final = "drawbridge-ca"


class Certificate(msgspec.Struct, frozen=True):
    """A certificate in PEM form, with its validity in Unix time."""

    pem: str
    not_before: float
    not_after: float

    @property
    def life(self) -> float:
        """How long an authority is used: the second half of its validity."""
        return (self.not_after - self.not_before) / 2

    @property
    def fingerprint(self) -> str:
        """The start of the SHA-256 of its PEM form, to name it in messages."""
        return hashlib.sha256(self.pem.encode()).hexdigest()[:16]

    def is_valid(self, now: float) -> bool:
        """Whether it is valid at a time."""
        return self.not_before <= now < self.not_after


class Authority(msgspec.Struct, frozen=True):
    """A certificate that may sign others, and its private key in PEM form."""

    certificate: Certificate
    key: str

    def __repr__(self) -> str:
        """Name the certificate, and never the key: the text can reach a log."""
        return f"Authority({self.certificate.fingerprint})"


class Authorities(msgspec.Struct, frozen=True):
    """All authorities at one time.

    `current` signs serving certificates. `upcoming` is already trusted and signs them next.
    `trusted` is everything that the API server has to trust, with both of them, the oldest first.
    """

    current: Authority | None = None
    upcoming: Authority | None = None
    trusted: tuple[Certificate, ...] = ()

    @property
    def bundle(self) -> str:
        """The trusted certificates in PEM form, as `caBundle` has them."""
        return "".join(each.pem for each in self.trusted)


NONE: Final = Authorities()


def create_authority(now: float, life: float) -> Authority:
    """Make an authority that is valid for `life` seconds from now; draws random numbers.

    Its validity starts one life earlier, so that a clock that is behind accepts it at once.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    serial = x509.random_serial_number()
    # The names differ, so that a verifier finds the right one of several without trying them.
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{_NAME} {serial:040x}"[:64])])
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(serial)
        .not_valid_before(_to_time(now - life))
        .not_valid_after(_to_time(now + life))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage_of_key(signs_certificates=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(key, hashes.SHA256())
    )
    return Authority(describe_certificate(certificate), encode_key(key))


def find_rotation(certificate: Certificate) -> float:
    """Return when two thirds of its life are over."""
    return certificate.not_after - certificate.life / 3


def is_named_as_ours(certificate: Certificate) -> bool:
    """Whether the subject is one that `create_authority` writes."""
    subject = x509.load_pem_x509_certificate(certificate.pem.encode()).subject
    names = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return any(str(each.value).startswith(_NAME) for each in names)


def read_certificates(pem: bytes) -> tuple[Certificate, ...]:
    """Read certificates in PEM form; raises ValueError unless all are readable."""
    return tuple(describe_certificate(each) for each in x509.load_pem_x509_certificates(pem))


def read_authority(certificate: bytes, key: bytes) -> Authority:
    """Read an authority; raises ValueError with the reason why it cannot sign."""
    try:
        loaded = x509.load_pem_x509_certificate(certificate)
    except ValueError:
        raise ValueError("the certificate is not readable") from None
    try:
        private = serialization.load_pem_private_key(key, None)
    except (ValueError, TypeError, ImportError):
        raise ValueError("the private key is not readable") from None
    if not isinstance(private, ec.EllipticCurvePrivateKey):
        raise ValueError("the private key is not an elliptic curve key")  # noqa: TRY004  # content
    if private.public_key() != loaded.public_key():
        raise ValueError("the private key does not belong to the certificate")
    if not _may_sign(loaded):
        raise ValueError("the certificate is not that of a certificate authority")
    return Authority(describe_certificate(loaded), encode_key(private))


def _may_sign(certificate: x509.Certificate) -> bool:
    try:
        limits = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
        return False
    return limits.value.ca


def describe_certificate(certificate: x509.Certificate) -> Certificate:
    """Return the PEM form and the validity of a certificate."""
    return Certificate(
        certificate.public_bytes(serialization.Encoding.PEM).decode(),
        certificate.not_valid_before_utc.timestamp(),
        certificate.not_valid_after_utc.timestamp(),
    )


def usage_of_key(*, signs_certificates: bool) -> x509.KeyUsage:
    """Return what a key is for: to sign certificates, or else to prove who serves."""
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def encode_key(key: ec.EllipticCurvePrivateKey) -> str:
    """Return a private key in PEM form."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


def combine_certificates(*several: Iterable[Certificate]) -> tuple[Certificate, ...]:
    """Return all certificates once, the oldest first."""
    unique = {each.pem: each for some in several for each in some}
    return tuple(sorted(unique.values(), key=lambda each: (each.not_before, each.pem)))


def _to_time(instant: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(instant, dt.UTC)
