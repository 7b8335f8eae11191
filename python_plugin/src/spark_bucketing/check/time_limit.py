"""Limit the time to plan one query and to test its fixes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from spark_bucketing.errors import PlanError

Value = TypeVar("Value")


class TimeLimit:
    """Runs one task at a time with a time limit.

    If a task exceeds the limit, the caller abandons it.

    An abandoned task continues in its thread until Spark responds. Until then, it uses the session's tables, settings
    and connection. Therefore, no other task starts before it has ended.
    """

    def __init__(self, seconds: float | None) -> None:
        """Set the time limit for each task in seconds, or None for no limit."""
        self._seconds = seconds
        self._left: Future[Any] | None = None
        self._patience = seconds

    def run(self, work: Callable[[Callable[[], bool]], Value]) -> Value:
        """Run a task and return its result.

        Args:
            work: the task. The task's argument is a function that returns whether the time limit is exceeded, so that
                no further step may start.

        Raises:
            PlanError: the task took too long, or an abandoned task is still running.
        """
        if self._seconds is None:
            return work(lambda: False)
        if not self.is_free():
            raise PlanError(
                f"Spark is still busy with an earlier query that exceeded the time limit of {self._seconds:g} s "
                "(--time-limit). Check this query separately with --select."
            )
        end = time.monotonic() + self._seconds / 2
        outcome: Future[Value] = Future()

        def run() -> None:
            try:
                outcome.set_result(work(lambda: time.monotonic() > end))
            except BaseException as error:
                outcome.set_exception(error)

        # Python cannot stop the thread, but a daemon thread does not keep this process alive.
        threading.Thread(target=run, name="query", daemon=True).start()
        if not wait([outcome], self._seconds).done:
            self._left = outcome
            raise PlanError(f"Planning and analyzing the query took longer than {self._seconds:g} s (--time-limit).")
        return outcome.result()

    def is_free(self) -> bool:
        """Return whether no abandoned task is running.

        The first call waits until the abandoned task ends, but no longer than the time limit.
        """
        if self._left and not wait([self._left], self._patience).done:
            self._patience = 0
            return False
        self._left, self._patience = None, self._seconds
        return True
