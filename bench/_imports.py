"""Measures what each process loads before its first request: our modules and lines, CPU, memory.

Each row is a process of its own, which imports the module and nothing else.
"""

import subprocess
import sys
from typing import Final

MODULES: Final = (
    "drawbridge.translate.pods",
    "webhook.server.admissions",
    "webhook.server.process",
    "webhook.judging.configuration",
    "webhook.server.judge_process",
    "controller.process",
    "allocator.process",
)
_MEASURE: Final = """
import sys, time
from pathlib import Path
__import__(sys.argv[1])
spent = time.process_time()
ours = ("allocator", "certs", "cli", "controller", "drawbridge", "webhook")
files = [
    each.__file__ for name, each in sys.modules.items()
    if name.partition(".")[0] in ours and each.__file__
]
lines = sum(Path(each).read_bytes().count(b"\\n") for each in files)
memory = next(each for each in open("/proc/self/status") if each.startswith("VmRSS"))
print(len(files), lines, spent, int(memory.split()[1]) / 1024)
"""


def run() -> None:
    """Print all rows."""
    print(f"{'':34} {'modules':>7} {'lines':>7} {'CPU s':>6} {'MiB':>5}")
    for module in MODULES:
        done = subprocess.run(  # noqa: S603  # ours
            [sys.executable, "-c", _MEASURE, module], capture_output=True, check=True
        )
        modules, lines, spent, memory = map(float, done.stdout.split())
        print(f"{module:34} {modules:7.0f} {lines:7.0f} {spent:6.2f} {memory:5.1f}")
