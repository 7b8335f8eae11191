"""A limit to the time that one query may take: planning it, and trying out what could be changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from spark_bucketing.errors import PlanError

Value = TypeVar("Value")


def in_time(work: Callable[[Callable[[], bool]], Value], seconds: float | None) -> Value:
    """The outcome of some work; what takes too long is left to itself.

    Args:
        work: gets a function that returns whether it is too late to begin another step.
        seconds: for all of it; None for no limit.

    Raises:
        PlanError: it took too long.
    """
    if seconds is None:
        return work(lambda: False)
    end = time.monotonic() + seconds / 2
    outcome: Future[Value] = Future()

    def run() -> None:
        try:
            outcome.set_result(work(lambda: time.monotonic() > end))
        except BaseException as error:
            outcome.set_exception(error)

    # A thread of Spark's cannot be stopped from here; as a daemon it does not keep this process alive.
    threading.Thread(target=run, name="query", daemon=True).start()
    if not wait([outcome], seconds).done:
        raise PlanError(f"It was not planned and judged within {seconds:g} s (--time-limit).")
    return outcome.result()
