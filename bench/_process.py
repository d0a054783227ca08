"""What processes have used, by their PID, and the trees whose processes take turns."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
# With the variable BASELINE, the path of another checkout, its processes run in turns with ours.
BASELINE: Final = Path(os.environ["BASELINE"]).resolve() if "BASELINE" in os.environ else None
TREES: Final[Mapping[str, Path]] = {"ours": ROOT} | ({"baseline": BASELINE} if BASELINE else {})


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of all threads, which other processes of the machine do not delay."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(each.read_text("ascii").split()[0]) for each in threads) / 1e9


def peak_mebibytes(pid: int) -> float:
    """Return the largest resident memory."""
    peak = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text("utf-8"))
    return int(peak[1]) / 1024 if peak else 0.0


def resident_mebibytes(pid: int) -> float:
    """Return the resident memory now."""
    resident = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text("utf-8"))
    return int(resident[1]) / 1024 if resident else 0.0
