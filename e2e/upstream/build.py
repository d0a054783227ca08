"""Builds upstream's suites as test programs, once for each pin and source.

    python -m e2e.upstream.build

The suites are packages of the pinned module of Kubernetes; the Go files here only start them.
"""

from pathlib import Path

from e2e.bridge.build import MODULE as PLUGIN
from e2e.controlplane.build import cache_name, compile_program, module_folder

HERE = Path(__file__).parent
CACHE = HERE.parent.parent / ".cache" / "upstream"
SUITES = ("scheduler", "dra")
# `ginkgo` runs tests in parallel; the others run in pods of the tests.
PACKAGES = {
    "ginkgo": "github.com/onsi/ginkgo/v2/ginkgo",
    "hostpathplugin": "./hostpathplugin",
    "sample-device-plugin": "k8s.io/kubernetes/test/images/sample-device-plugin",
}


def suite(name: str) -> Path:
    """Return the test program of a suite, building it if need be; NoGoError without Go."""
    sources = sorted((HERE / name).glob("*.go"))
    if name == "scheduler":
        sources += [path for path in sorted(PLUGIN.rglob("*.go")) if "_test" not in path.name]
    program = CACHE / cache_name(name, HERE, *sources)
    if not program.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        compile_program(HERE, f"./{name}", program, test=True)
    return program


def program(name: str) -> Path:
    """Return a program of `PACKAGES`, building it if need be; NoGoError without Go."""
    built = CACHE / cache_name(name, HERE, *sorted((HERE / name).glob("*.go")))
    if not built.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        compile_program(HERE, PACKAGES[name], built)
    return built


def kubernetes(pin: Path = HERE) -> Path:
    """Return the folder of a pinned module, where workloads and manifests are."""
    return module_folder(pin, "k8s.io/kubernetes")


if __name__ == "__main__":
    for each in SUITES:
        print(suite(each))  # noqa: T201
    for each in PACKAGES:
        print(program(each))  # noqa: T201
