"""A certificate authority and the certificates that it signs, as PEM files."""

import datetime as dt
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

BEGIN = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
END = dt.datetime(2100, 1, 1, tzinfo=dt.UTC)


class Authority:
    """Signs certificates for `127.0.0.1` or a name; `file` is its own certificate."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named("test authority")
        made = self._signed(self._name, self._key.public_key(), x509.BasicConstraints(True, None))  # noqa: FBT003  # the library's own
        self.file = _written(folder / "ca.crt", made.public_bytes(serialization.Encoding.PEM))

    def signed(self, name: str) -> tuple[Path, Path]:
        """Make a certificate and its key for an address or a DNS name."""
        key = ec.generate_private_key(ec.SECP256R1())
        try:
            alias: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(name))
        except ValueError:
            alias = x509.DNSName(name)
        names = x509.SubjectAlternativeName([alias])
        made = self._signed(_named(name), key.public_key(), names)
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        public = made.public_bytes(serialization.Encoding.PEM)
        return _written(self.folder / f"{name}.crt", public), _written(
            self.folder / f"{name}.key", private
        )

    def server(self, name: str = "127.0.0.1", *, asks: bool = False) -> ssl.SSLContext:
        """Return the TLS context of a server; with `asks` it requires client certificates."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.signed(name))
        if asks:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.file)
        return context

    def _signed(
        self, name: x509.Name, key: ec.EllipticCurvePublicKey, extension: x509.ExtensionType
    ) -> x509.Certificate:
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(BEGIN)
            .not_valid_after(END)
            .add_extension(extension, critical=False)
            .sign(self._key, hashes.SHA256())
        )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path
