"""A limit to the time that one query may take: planning it, and trying out what could be changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from spark_bucketing.errors import PlanError

Value = TypeVar("Value")


class TimeLimit:
    """One piece of work after the other, for which there is a limit; what takes too long is left to itself.

    It goes on in its thread until Spark answers, with the session's tables and settings as it has given them, and with
    the connection. So nothing else is asked of Spark before it has ended.
    """

    def __init__(self, seconds: float | None) -> None:
        """Limit each piece of work to these seconds, or not at all."""
        self._seconds = seconds
        self._left: Future[Any] | None = None
        self._patience = seconds

    def run(self, work: Callable[[Callable[[], bool]], Value]) -> Value:
        """The outcome of some work.

        Args:
            work: gets a function that returns whether it is too late to begin another step.

        Raises:
            PlanError: it took too long, or something before it has not ended yet.
        """
        if self._seconds is None:
            return work(lambda: False)
        if not self.is_free():
            raise PlanError(
                "Spark is still busy with an earlier query, which was not planned and judged within "
                f"{self._seconds:g} s (--time-limit). Check this one by itself, with --select."
            )
        end = time.monotonic() + self._seconds / 2
        outcome: Future[Value] = Future()

        def run() -> None:
            try:
                outcome.set_result(work(lambda: time.monotonic() > end))
            except BaseException as error:
                outcome.set_exception(error)

        # A thread of Spark's cannot be stopped from here; as a daemon it does not keep this process alive.
        threading.Thread(target=run, name="query", daemon=True).start()
        if not wait([outcome], self._seconds).done:
            self._left = outcome
            raise PlanError(f"It was not planned and judged within {self._seconds:g} s (--time-limit).")
        return outcome.result()

    def is_free(self) -> bool:
        """Whether nothing is left that has not ended; waited for as long as the limit is, once."""
        if self._left and not wait([self._left], self._patience).done:
            self._patience = 0
            return False
        self._left, self._patience = None, self._seconds
        return True
