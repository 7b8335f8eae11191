"""Ctrl-C that waits until what runs elsewhere has been cancelled."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def noted_interrupts() -> Iterator[threading.Event]:
    """Note the first Ctrl-C inside the block, by an event, instead of breaking off whatever line is running.

    Raises:
        KeyboardInterrupt: at the end of the block, when there was one.
    """
    come = threading.Event()
    # Python lets only the main thread handle signals.
    if threading.current_thread() is not threading.main_thread():
        yield come
        return

    def note(_signal: int, _frame: FrameType | None) -> None:
        come.set()
        # The next one acts at once.
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
