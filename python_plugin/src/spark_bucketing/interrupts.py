"""Ctrl-C that waits until what runs elsewhere has been cancelled."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupts:
    """Whether somebody has pressed Ctrl-C."""

    def __init__(self) -> None:
        self.come = False

    def note(self, _signal: int, _frame: FrameType | None) -> None:
        """Handle the first signal; the next one acts at once."""
        self.come = True
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def noted_interrupts() -> Iterator[Interrupts]:
    """Note the first Ctrl-C inside the block instead of breaking off whatever line is running.

    Raises:
        KeyboardInterrupt: at the end of the block, when there was one.
    """
    interrupts = Interrupts()
    # Python lets only the main thread handle signals.
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    before = signal.signal(signal.SIGINT, interrupts.note)
    try:
        yield interrupts
    except Exception as error:
        if interrupts.come:
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupts.come:
        raise KeyboardInterrupt
