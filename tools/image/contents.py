"""What the image contains: Debian packages with reasons, and what is left out of them. Pure."""

import posixpath
import re
from collections.abc import Mapping
from typing import Final

from tools.image.tree import File, Folder, Link, Node, Tree

RELEASE: Final = "12"
PYTHON: Final = "3.11"
USER: Final = 65532
# How a container of the image runs, as the OCI specification writes it.
RUN: Final[Mapping[str, object]] = {
    "User": f"{USER}:{USER}",
    "Entrypoint": ["drawbridge"],
    "Env": ["PATH=/usr/local/bin:/usr/bin", "LANG=C.UTF-8"],
    "WorkingDir": "/",
}
SITE: Final = f"usr/local/lib/python{PYTHON}/dist-packages"
DOCUMENTS: Final = "usr/share/doc/drawbridge"
# The Debian package and what needs it. Nothing else is installed: what a package depends on and
# nothing here needs, such as debconf and Perl, stays out. `elf.missing_libraries` proves the rest.
PACKAGES: Final[Mapping[str, str]] = {
    "base-files": "the name of the release, for scanners, and the texts of the licences",
    "ca-certificates": "certificates of public authorities, for API servers that have such one",
    "gcc-12-base": "the licence of libgcc-s1 and libstdc++6, which refer to it",
    "libc6": "everything",
    "libexpat1": "XML in the standard library",
    "libffi8": "ctypes",
    "libgcc-s1": "libstdc++6",
    "libpython3.11-minimal": "the standard library",
    "libpython3.11-stdlib": "the standard library",
    "libssl3": "TLS",
    "libstdc++6": "google-re2 and msgspec",
    "python3.11-minimal": "the interpreter",
    "zlib1g": "compression in the standard library",
}
# Extension modules for libraries that are not in the image. An import fails as on a system without
# them, which the standard library and all dependencies expect.
_MODULES_LEFT_OUT: Final = (
    "_bz2", "_crypt", "_ctypes_test", "_curses", "_curses_panel", "_dbm", "_lzma", "_sqlite3",
    "_uuid", "nis", "readline",
)  # fmt: skip
_LEFT_OUT: Final = re.compile(
    "|".join(
        (
            r"(boot|dev|home|media|mnt|opt|root|run|srv|sys|var)(/|$)",
            # Scripts for shells and for dpkg.
            r"etc/(apt|default|dpkg|ld\.so\.conf|profile|skel|update-motd|ca-certificates)",
            r"usr/s?bin/(?!python3\.11$)",
            # The interpreter has the encodings of the standard library.
            r"usr/lib/[^/]+/(gconv|engines-3|audit)/",
            r"usr/lib/[^/]+/libc_malloc_debug",
            r"usr/share/(?!doc/[^/]+(/copyright)?$|common-licenses/)",
            r"usr/lib/python3\.11/(test|pydoc_data|idlelib|lib2to3|ensurepip|__phello__)/",
            rf"usr/lib/python3\.11/lib-dynload/({'|'.join(_MODULES_LEFT_OUT)})\.",
            r"usr/lib/valgrind|usr/share/gdb",
        )
    )
)
_AUTHORITIES: Final = "usr/share/ca-certificates/mozilla/"
_BUNDLE: Final = "etc/ssl/certs/ca-certificates.crt"
_SCRIPT: Final = f"""\
#!/usr/bin/python{PYTHON} -IB
import sys
from cli.__main__ import main
sys.exit(main())
""".encode()


def select_files(package: Tree) -> dict[str, Node]:
    """Return what the image has of a Debian package, with merged /usr as Debian installs it."""
    merged = {_merge_usr(path): node for path, node in package.items()}
    return {path: node for path, node in merged.items() if not _LEFT_OUT.match(path)}


def system_files(packages: Tree) -> dict[str, Node]:
    """Return the files that an installation of the packages would generate."""
    certificates = [
        node.data
        for path, node in sorted(packages.items())
        if path.startswith(_AUTHORITIES) and isinstance(node, File)
    ]
    if not certificates:
        raise ValueError(f"ca-certificates has no file in {_AUTHORITIES}")
    user = f"drawbridge:x:{USER}:{USER}:drawbridge:/tmp:/nonexistent\n"
    return {
        **{name: Link(f"usr/{name}") for name in ("bin", "lib", "lib64", "sbin")},
        **{
            name: Folder() for name in ("dev", "proc", "run", "sys", "tmp", "usr/sbin", "usr/lib64")
        },
        _BUNDLE: File(b"".join(certificates)),
        "usr/lib/ssl/cert.pem": Link(f"/{_BUNDLE}"),
        "usr/lib/ssl/certs": Link("/etc/ssl/certs"),
        "etc/group": File(f"root:x:0:\ndrawbridge:x:{USER}:\n".encode()),
        "etc/passwd": File(f"root:x:0:0:root:/:/nonexistent\n{user}".encode()),
        "etc/nsswitch.conf": File(b"passwd: files\ngroup: files\nhosts: files dns\n"),
    }


def commands() -> dict[str, Node]:
    """Return the commands of the image."""
    return {
        "usr/local/bin/drawbridge": File(_SCRIPT, is_executable=True),
        "usr/local/bin/kubectl-drawbridge": Link("drawbridge"),
    }


def _merge_usr(path: str) -> str:
    top, _, rest = path.partition("/")
    return posixpath.join("usr", path) if rest and top in ("bin", "lib", "lib64", "sbin") else path
