"""Checks that the git tag, pyproject.toml and CHANGELOG.md name the same version.

    python -m tools.version            # pyproject.toml and CHANGELOG.md, and the tag of HEAD if any
    python -m tools.version v0.1.0     # the same for a given tag

The tag decides: a release is built from a tagged commit whose pyproject.toml has that version. The
version stays static, so that a build needs neither git nor another build dependency.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
_RELEASE = re.compile(r"^## (\S+) - (\d{4}-\d{2}-\d{2})$", re.MULTILINE)


def differences(version: str, changelog: str, tags: Sequence[str]) -> Iterator[str]:
    """Yield a line for each place that names another version."""
    releases = [match[1] for match in _RELEASE.finditer(changelog)]
    if "\n## Unreleased\n" not in changelog:
        yield "CHANGELOG.md has no section Unreleased"
    if not releases or releases[0] != version:
        newest = releases[0] if releases else "none"
        yield f"pyproject.toml has version {version}, the newest in CHANGELOG.md is {newest}"
    for tag in tags:
        if tag != f"v{version}":
            yield f"the tag is {tag}, pyproject.toml has version {version}: expected v{version}"


def tags_of_head() -> list[str]:
    """The version tags of the commit that is checked out; none outside a git repository."""
    words = ["git", "-C", f"{ROOT}", "tag", "--points-at", "HEAD", "--list", "v*"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603  # constant
    return done.stdout.split()


def main(arguments: Sequence[str]) -> int:
    """Print the differences; the exit code is 1 if there are any."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    violations = list(differences(version, changelog, arguments or tags_of_head()))
    for line in violations:
        print(line)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
