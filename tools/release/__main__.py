"""Builds a release into a folder, signs it, and checks it.

python -m tools.release build OUT [--registry PREFIX] [--architecture A]... [--kubernetes V]...
python -m tools.release sign OUT --key key.pem      # or sign by cosign, and then:
python -m tools.release attach OUT
python -m tools.release check OUT --key key.pub
python -m tools.release list OUT                    # prints repository:tag of each artifact

The password of an encrypted key is read from the variable COSIGN_PASSWORD, as cosign does.
"""

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tools.commit import NoCommitError, read_commit
from tools.image import build, debian, scheduler
from tools.image.__main__ import FAILURES
from tools.release import artifacts, bundles, check, layout, record
from tools.release.statements import Builder

_LOCAL = "https://drawbridge.dev/release/v1/by-hand"


def build_release(options: argparse.Namespace) -> None:
    """Write everything but the signatures."""
    commit = read_commit(build.ROOT)
    if commit.name.endswith("-dirty") and not options.dirty:
        raise NoCommitError("files differ from the commit: commit them, or build with --dirty")
    builder = Builder(options.builder, options.invocation, options.source)
    origin = artifacts.Origin(commit, build.read_version(), builder)
    made = [artifacts.compose_image(origin, options.architecture)]
    made += [
        artifacts.compose_scheduler(origin, version, options.architecture)
        for version in options.kubernetes
    ]
    pinned = {
        each.repository: (f"{options.registry}/{each.repository}", each.manifest.digest)
        for each in made
        if options.registry and origin.version in each.tags
    }
    made.append(artifacts.compose_chart(origin, pinned))
    about_files = artifacts.build_files(origin, options.out / artifacts.FILES)
    record.write(options.out, origin.version, commit.name, made, about_files)
    for each in made:
        print(f"{each.repository}:{','.join(each.tags)}  {each.manifest.digest}")


def sign_release(options: argparse.Namespace) -> None:
    """Sign every statement with a key, and attach the bundles."""
    key = bundles.load_private(options.key.read_bytes(), os.environ.get("COSIGN_PASSWORD", ""))
    for entry, statement in record.read_statements(options.out):
        path = record.bundle_path(options.out, entry["name"])
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bundles.sign(statement, key))
    attach_bundles(options)


def attach_bundles(options: argparse.Namespace) -> None:
    """Attach the bundles to what they are about."""
    print(f"{record.attach(options.out)} bundles are attached")


def check_release(options: argparse.Namespace) -> None:
    """Print what is wrong with a release; SystemExit if something is."""
    key = bundles.load_public(options.key.read_bytes())
    if problems := list(check.find_problems(options.out, key)):
        raise record.ReleaseError("\n".join(problems))
    print("everything is as the key signed it")


def list_release(options: argparse.Namespace) -> None:
    """Print the reference of each artifact."""
    for artifact in record.read(options.out)["artifacts"]:
        for tag in artifact["tags"]:
            print(f"{artifact['repository']}:{tag}")


_STEPS: Mapping[str, Callable[[argparse.Namespace], None]] = {
    "build": build_release,
    "sign": sign_release,
    "attach": attach_bundles,
    "check": check_release,
    "list": list_release,
}
_FAILURES = (
    *FAILURES,
    record.ReleaseError,
    bundles.BundleError,
    bundles.UnusableKeyError,
    layout.LayoutError,
    OSError,
)


def main() -> int:
    """Run one step; 1 if it fails."""
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__)
    parser.add_argument("step", choices=_STEPS)
    parser.add_argument("out", type=Path)
    parser.add_argument("--key", type=Path, help="a key of the curve P-256 in PEM")
    parser.add_argument("--registry", default="", help="where the images will be, for the chart")
    parser.add_argument("--architecture", action="append", choices=debian.ARCHITECTURES)
    parser.add_argument("--kubernetes", nargs="*", choices=scheduler.VERSIONS)
    parser.add_argument("--builder", default=_LOCAL, help="the identifier of who builds")
    parser.add_argument("--invocation", default="", help="the address of the run that builds")
    parser.add_argument("--source", default="", help="the address of the repository")
    parser.add_argument("--dirty", action="store_true", help="build what is not committed, too")
    options = parser.parse_args()
    options.architecture = options.architecture or list(debian.ARCHITECTURES)
    if options.kubernetes is None:
        options.kubernetes = list(scheduler.VERSIONS)
    if options.step in ("sign", "check") and not options.key:
        parser.error(f"{options.step} needs --key")
    try:
        _STEPS[options.step](options)
    except _FAILURES as failure:
        print(f"{failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
