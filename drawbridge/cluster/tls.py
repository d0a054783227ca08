"""Makes the TLS context of a client from certificates and keys in memory.

OpenSSL reads keys from files only. A signal can end the process at any time, and no file with a key
may stay then.
"""

import contextlib
import os
import ssl
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final, NamedTuple

from drawbridge.cluster.errors import AccessError

_DESCRIPTORS: Final = Path("/proc/self/fd")


class KeyPair(NamedTuple):
    """A certificate and its private key in PEM form."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "KeyPair()"  # without the key


class Trust(NamedTuple):
    """What a client trusts, and what it shows; without `authority`, the CAs of this machine."""

    verify: bool = True
    authority: bytes | None = None
    pair: KeyPair | None = None


def make_context(trust: Trust) -> ssl.SSLContext:
    """Make the context of a client; raises AccessError."""
    context = _trusting(trust.authority)
    # Python 3.13 requires CA certificate extensions that many clusters' CAs do not have and that
    # no other Kubernetes client requires.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    # Before Python 3.13, an intermediate CA or the server's own certificate alone is not trusted.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if trust.pair:
        try:
            load_pair(context, trust.pair)
        except (OSError, ValueError) as error:
            raise AccessError(f"cannot load the client certificate or its key: {error}") from None
    if not trust.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _trusting(authority: bytes | None) -> ssl.SSLContext:
    if authority is None:
        return ssl.create_default_context()
    # A comment between certificates can have other letters. Without a text, OpenSSL would trust
    # the CAs of this machine.
    text = authority.decode("ascii", errors="ignore").strip()
    if not text:
        raise AccessError("cannot load the CA: it is empty")
    try:
        return ssl.create_default_context(cadata=text)
    except (OSError, ValueError):  # its text is about the code of Python
        raise AccessError("cannot load the CA: it is no certificate in PEM form") from None


def load_pair(context: ssl.SSLContext, pair: KeyPair) -> None:
    """Load a certificate and its key; raises OSError or ValueError."""
    with open_in_memory(pair.certificate) as public, open_in_memory(pair.key) as private:
        context.load_cert_chain(public, private, password=_no_password)


@contextlib.contextmanager
def open_in_memory(content: bytes) -> Iterator[str]:
    """Offer bytes as a file that ends with this process; elsewhere than on Linux, with the call."""
    if sys.platform == "linux" and _DESCRIPTORS.is_dir():
        descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
        file: IO[bytes] = open(descriptor, "wb")  # noqa: PTH123, SIM115  # a descriptor
        name = f"{_DESCRIPTORS / str(descriptor)}"
    else:
        file = tempfile.NamedTemporaryFile()  # noqa: SIM115  # closed below
        name = file.name
    with file:
        file.write(content)
        file.flush()
        yield name


def _no_password() -> str:
    # Without this callback, OpenSSL prompts on the terminal for the password of an encrypted key.
    raise ValueError("the key is encrypted; use a key without a password")
