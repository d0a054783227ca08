"""Builds the pinned manager of Kueue, once.

    python -m e2e.queues.build

A build takes about twenty minutes on two cores: the manager imports the API of every kind of job.
"""

from pathlib import Path

from e2e.controlplane.build import cache_name, compile_program, module_folder, required

PIN = Path(__file__).parent / "kueue-0.19.2"
MODULE = "sigs.k8s.io/kueue"
_CACHE = Path(__file__).parent.parent.parent / ".cache" / "queues"


def version() -> str:
    """Read the version of Kueue that the pin requires."""
    return required(PIN, MODULE)


def manager() -> Path:
    """Return the manager of Kueue, built when it is missing."""
    program = _CACHE / cache_name(PIN.name, PIN) / "kueue"
    program.parent.mkdir(parents=True, exist_ok=True)
    if not program.exists():
        print(f"building the manager of Kueue {version()}", flush=True)  # noqa: T201
        compile_program(PIN, f"{MODULE}/cmd/kueue", program)
    return program


def manifests() -> Path:
    """Return the folder of the manifests in the module that the pin requires."""
    return module_folder(PIN, MODULE) / "config" / "default"


if __name__ == "__main__":
    print(manager())  # noqa: T201
