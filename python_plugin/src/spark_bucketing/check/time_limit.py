"""A limit to the time that one query may take: planning it, and trying out what could be changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from spark_bucketing.errors import PlanError

Value = TypeVar("Value")


@dataclass(frozen=True)
class Deadline:
    """A moment after which nothing more is begun; None for never."""

    at: float | None = None

    def passed(self) -> bool:
        """Whether it is over."""
        return self.at is not None and time.monotonic() > self.at


def in_time(work: Callable[[Deadline], Value], seconds: float | None) -> Value:
    """The outcome of some work; what takes too long is left to itself.

    Args:
        work: gets the moment at which it should have begun its last step.
        seconds: for all of it; None for no limit.

    Raises:
        PlanError: it took too long.
    """
    if seconds is None:
        return work(Deadline())
    outcome: list[Value] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(work(Deadline(time.monotonic() + seconds / 2)))
        except BaseException as error:
            failure.append(error)

    # A thread of Spark's cannot be stopped from here; as a daemon it does not keep this process alive.
    thread = threading.Thread(target=run, name="query", daemon=True)
    thread.start()
    thread.join(seconds)
    if failure:
        raise failure[0]
    if not outcome:
        raise PlanError(f"It was not planned and judged within {seconds:g} s (--time-limit).")
    return outcome[0]
