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

from tools.site.links import follow
from tools.site.pages import ROOT, collect

HERE: Final = Path(__file__).parent
CACHE: Final = ROOT / ".cache" / "site"
LOCK: Final = ROOT / "requirements-site.lock"
_DRAWER: Final = ("package.json", "package-lock.json")


def main(words: Sequence[str]) -> int:
    """Build the site and follow its links; the exit code is 1 if something is wrong."""
    target = Path(words[0]) if words else CACHE / "html"
    sources = CACHE / "pages"
    shutil.rmtree(sources, ignore_errors=True)
    shutil.rmtree(target, ignore_errors=True)
    collect(sources)
    _add_scripts(CACHE / "static")
    options = ("--quiet", "--fail-on-warning", "--keep-going", "--builder", "html", "--fresh-env")
    program = _install() / "bin" / "sphinx-build"
    places = ("--conf-dir", str(HERE), "--doctree-dir", str(CACHE / "doctrees"))
    _run(program, *options, *places, sources, target)
    report = follow(target)
    print("\n".join(report.wrong))
    print(
        f"{target}: {len(list(target.rglob('*.html')))} pages, {report.followed} links followed,"
        f" {len(report.wrong)} wrong, {len(report.external)} addresses elsewhere"
    )
    return 1 if report.wrong else 0


def _install() -> Path:
    """Return the environment of the generator, made once for each lock file."""
    environment = CACHE / f"venv-{_digest(LOCK)}"
    if not (environment / ".ready").exists():
        pip = (environment / "bin" / "python", "-m", "pip", "--disable-pip-version-check")
        _run(sys.executable, "-m", "venv", environment)
        _run(*pip, "install", "--quiet", "--require-hashes", "-r", LOCK)
        (environment / ".ready").touch()
    return environment


def _add_scripts(target: Path) -> None:
    """Add what draws the diagrams, installed once for each lock file."""
    target.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "start.js", target)
    if shutil.which("npm") is None:
        (target / "mermaid.min.js").write_text("")
        print("npm is not on the PATH: diagrams stay text")
        return
    modules = CACHE / f"npm-{_digest(HERE / _DRAWER[1])}"
    if not (modules / "node_modules").exists():
        modules.mkdir(parents=True, exist_ok=True)
        for name in _DRAWER:
            shutil.copy(HERE / name, modules)
        words = ("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent")
        _run("npm", *words, "--prefix", modules)
    shutil.copy(modules / "node_modules/mermaid/dist/mermaid.min.js", target)


def _run(*words: str | Path) -> None:
    """Run a command, which prints what is wrong; SystemExit if it fails."""
    code = subprocess.run(list(map(str, words)), check=False).returncode  # noqa: S603  # our words
    if code:
        raise SystemExit(f"{words[0]} ended with {code}")


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:12]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
