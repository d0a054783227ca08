"""Builds the documentation site from the pages here: `python -m tools.site [FOLDER]`.

The exit code is 1 if Sphinx warns, or if a link between pages leads nowhere. The generator is
pinned in `requirements-site.lock`, and what draws the diagrams in the lock file beside this module.
Without npm, diagrams stay text. The site needs no server.
"""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from e2e.npm import NpmError, install
from tools.site.links import follow
from tools.site.pages import ROOT, collect

HERE: Final = Path(__file__).parent
CACHE: Final = ROOT / ".cache" / "site"
LOCK: Final = ROOT / "requirements-site.lock"


def main(words: Sequence[str]) -> int:
    """Build the site and follow its links; the exit code is 1 if something is wrong."""
    target = Path(words[0]) if words else CACHE / "html"
    sources = CACHE / "pages"
    shutil.rmtree(sources, ignore_errors=True)
    shutil.rmtree(target, ignore_errors=True)
    collect(sources)
    _add_scripts(CACHE / "static")
    options = ("--quiet", "--fail-on-warning", "--keep-going", "--builder", "html", "--fresh-env")
    # Not by its script, which names the folder that the checkout had when it was installed.
    program = (_install() / "bin" / "python", "-m", "sphinx")
    places = ("--conf-dir", str(HERE), "--doctree-dir", str(CACHE / "doctrees"))
    _run(*program, *options, *places, sources, target)
    report = follow(target)
    print("\n".join(report.wrong))
    print(
        f"{target}: {len(list(target.rglob('*.html')))} pages, {report.followed} links followed,"
        f" {len(report.wrong)} wrong, {len(report.external)} addresses elsewhere"
    )
    return 1 if report.wrong else 0


def _install() -> Path:
    """Return the environment of the generator, made once for each lock file."""
    digest = hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]
    environment = CACHE / f"venv-{digest}"
    if not (environment / ".ready").exists():
        pip = (environment / "bin" / "python", "-m", "pip", "--disable-pip-version-check")
        _run(sys.executable, "-m", "venv", environment)
        _run(*pip, "install", "--quiet", "--require-hashes", "-r", LOCK)
        (environment / ".ready").touch()
    return environment


def _add_scripts(target: Path) -> None:
    """Add what draws the diagrams."""
    target.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "start.js", target)
    try:
        packages = install(HERE, CACHE)
    except NpmError as problem:
        (target / "mermaid.min.js").write_text("")
        print(f"{problem}: diagrams stay text")
        return
    shutil.copy(packages / "mermaid" / "dist" / "mermaid.min.js", target)


def _run(*words: str | Path) -> None:
    """Run a command, which prints what is wrong; SystemExit if it fails."""
    code = subprocess.run(list(map(str, words)), check=False).returncode  # noqa: S603  # our words
    if code:
        raise SystemExit(f"{words[0]} ended with {code}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
