"""Delay the effect of Ctrl-C until Spark has cancelled the running statements."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def noted_interrupts() -> Iterator[threading.Event]:
    """On the first Ctrl-C inside the block, set an event instead of interrupting the code that is running.

    Raises:
        KeyboardInterrupt: the user pressed Ctrl-C inside the block. The error is raised at the end of the block.
    """
    come = threading.Event()
    # Only the main thread can handle signals.
    if threading.current_thread() is not threading.main_thread():
        yield come
        return

    def note(_signal: int, _frame: FrameType | None) -> None:
        come.set()
        # A second Ctrl-C interrupts immediately.
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield come
    except Exception as error:
        if come.is_set():
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.signal(signal.SIGINT, before)
    if come.is_set():
        raise KeyboardInterrupt
