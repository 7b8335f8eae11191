"""Which process does a rewrite, so that another one can tell whether it is still at work."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True)
class Owner:
    """A process.

    Args:
        pid: its number.
        began: when it was started, in ticks of its machine; empty where that is not known.
        place: machine, boot and namespace, within which numbers of processes mean something.
    """

    pid: int
    began: str
    place: str

    @staticmethod
    def current() -> Owner:
        """This process."""
        return Owner(os.getpid(), _status(os.getpid())[1], f"{socket.gethostname()} {_boot()}".strip())

    @staticmethod
    def parse(text: str) -> Owner:
        """What str() has made."""
        pid, began, place = (*text.split(" ", 2), "", "")[:3]
        return Owner(int(pid), began.strip("-"), place)

    def __str__(self) -> str:
        """As one line of text."""
        return f"{self.pid} {self.began or '-'} {self.place}"

    def is_dead(self) -> bool | None:
        """Whether there is no such process; None when that cannot be told from here. This one does one at a time."""
        here = Owner.current()
        if self == here:
            return True
        if self.place != here.place or os.name != "posix":
            return None
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
        state, began = _status(self.pid)
        if not (began and self.began):
            # Where processes of others cannot be looked at.
            return None
        # Another process may have its number by now; a zombie has ended, and nobody has asked how.
        return began != self.began or state in "ZX"


def _status(pid: int) -> tuple[str, str]:
    """State and start of a process as Linux tells them; empty where that is not known."""
    try:
        words = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return words[0], words[19]
    except (OSError, IndexError):
        return "", ""


def _boot() -> str:
    try:
        boot = (_PROC / "sys" / "kernel" / "random" / "boot_id").read_text().strip()
        return f"{boot} {(_PROC / 'self' / 'ns' / 'pid').readlink()}"
    except OSError:
        return ""
