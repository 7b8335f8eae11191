"""Create the temporary functions of a model's pre-hooks while its query is planned."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from spark_bucketing.check.sql_text import one_statement
from spark_bucketing.errors import SparkError
from spark_bucketing.plan.planner import Planner

_CREATE = re.compile(
    r"\s*create\s+(?:or\s+replace\s+)?temporary\s+function\s+(?:if\s+not\s+exists\s+)?(?P<name>`[^`]+`|\w+)",
    re.IGNORECASE,
)


def temporary_functions(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the pre-hooks of a model that create a temporary function.

    The manifest contains hooks before rendering, so hooks with Jinja are left out.
    """
    hooks = config.get("pre-hook") or ()
    texts = (str(hook.get("sql") if isinstance(hook, Mapping) else hook) for hook in _listed(hooks))
    return tuple(one_statement(text) for text in texts if _CREATE.match(text) and "{{" not in text and "{%" not in text)


@contextmanager
def created(planner: Planner, statements: Sequence[str]) -> Iterator[None]:
    """Create temporary functions in the planner's session, and drop them at the end of the block."""
    names = []
    for statement in statements:
        # If Spark rejects the statement, the error of the query names the missing function.
        with suppress(SparkError):
            planner.rows(statement)
            names += [found["name"]] if (found := _CREATE.match(statement)) else []
    try:
        yield
    finally:
        for name in names:
            planner.rows(f"drop temporary function if exists {name}")


def _listed(hooks: Any) -> Iterable[Any]:
    return hooks if isinstance(hooks, (list, tuple)) else (hooks,)
