"""Measure the run time of a command, and on Linux the memory of all its processes."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_PAUSE_SECONDS = 0.2


@dataclass(frozen=True)
class ProcessUsage:
    """The exit code, the run time and the memory use of a command."""

    code: int  # exit code
    seconds: float
    peaks: dict[str, int]  # peak resident memory in bytes by program name, summed over its processes


def run(command: Sequence[str]) -> ProcessUsage:
    """Run a command, and sample the memory of its processes while it runs.

    The last sample of a process contains its peak memory use. The peak can therefore omit memory that the process
    allocated just before it ended.
    """
    begin = time.perf_counter()
    running = subprocess.Popen(command)
    peaks: dict[int, tuple[str, int]] = {}
    while running.poll() is None:
        for process in (running.pid, *_descendants(running.pid)):
            if found := _peak(process):
                peaks[process] = found
        time.sleep(_PAUSE_SECONDS)
    sums: dict[str, int] = {}
    for name, peak in peaks.values():
        sums[name] = sums.get(name, 0) + peak
    return ProcessUsage(running.returncode, time.perf_counter() - begin, sums)


def _descendants(process: int) -> Iterator[int]:
    try:
        found = [task.read_text().split() for task in Path(f"/proc/{process}/task").glob("*/children")]
    except OSError:
        return
    for child in (int(word) for words in found for word in words):
        yield child
        yield from _descendants(child)


def _peak(process: int) -> tuple[str, int] | None:
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return None
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    name = re.search(r"Name:\s+(\S+)", status)
    return (name[1], int(found[1]) * 1024) if found and name else None
