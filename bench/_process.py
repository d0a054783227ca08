"""What processes have used, by their PID."""

import re
from pathlib import Path


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
