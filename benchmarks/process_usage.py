"""What a command takes: seconds, and memory of all its processes, as Linux keeps it."""

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
    """Of one command."""

    code: int  # its exit code
    seconds: float
    peaks: dict[str, int]  # greatest resident memory in bytes, by names of programs; the sum of those alike


def run(command: Sequence[str]) -> ProcessUsage:
    """Run a command, and look at its processes while it runs.

    What a process has ever used is read from its last look, so that only what it takes in its last moments is missed.
    """
    begin = time.perf_counter()
    running = subprocess.Popen(command)
    peaks: dict[int, tuple[str, int]] = {}
    while running.poll() is None:
        for process in (running.pid, *_below(running.pid)):
            if found := _peak(process):
                peaks[process] = found
        time.sleep(_PAUSE_SECONDS)
    sums: dict[str, int] = {}
    for name, peak in peaks.values():
        sums[name] = sums.get(name, 0) + peak
    return ProcessUsage(running.returncode, time.perf_counter() - begin, sums)


def _below(process: int) -> Iterator[int]:
    try:
        found = [task.read_text().split() for task in Path(f"/proc/{process}/task").glob("*/children")]
    except OSError:
        return
    for child in (int(word) for words in found for word in words):
        yield child
        yield from _below(child)


def _peak(process: int) -> tuple[str, int] | None:
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return None
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    name = re.search(r"Name:\s+(\S+)", status)
    return (name[1], int(found[1]) * 1024) if found and name else None
