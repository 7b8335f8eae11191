"""Define exit codes, errors, and the form of error messages."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from typing import Literal

State = Literal["ok", "wrong", "unknown"]
"""The state of something that was checked; `unknown` does not count as `ok`."""
# Exit codes of all commands. 2 also means that part of the result is unknown. 130 is the shell's code for SIGINT.
CLEAN, FINDINGS, COULD_NOT_RUN, INTERRUPTED = 0, 1, 2, 130


def exit_code(states: set[str]) -> int:
    """Return the exit code for the states of several checks.

    Findings take precedence over unknown states, and unknown states take precedence over success.
    """
    if "wrong" in states:
        return FINDINGS
    return COULD_NOT_RUN if "unknown" in states else CLEAN


def error_message(sentence: str, found: object = None, expected: object = None, instead: object = None) -> str:
    """Return the message of an error, in the form that CONTRIBUTING.md describes."""
    labels = {"found:    ": found, "expected: ": expected, "instead:  ": instead}
    # The indentation of further lines shows that they belong to the same label.
    lines = {
        label: str(text).rstrip("\n").replace("\n", "\n" + " " * 12)
        for label, text in labels.items()
        if text is not None
    }
    return "\n".join([sentence, *(f"  {label}{text or repr('')}" for label, text in lines.items())])


def headline(text: str) -> str:
    """Return the first line of Spark's error message, and the labeled lines that follow in errors of the extension."""
    first, *others = text.strip().splitlines() or [""]
    is_labeled = bool(others) and others[0].startswith(("  found: ", "  expected: ", "  instead: "))
    labeled = takewhile(lambda line: line.startswith("  "), others) if is_labeled else ()
    return "\n".join([first.strip(), *labeled])


class BucketingError(Exception):
    """Base class of all errors that this package raises deliberately."""

    def __init__(self, sentence: str, *, found: object = None, expected: object = None, instead: object = None) -> None:
        """Compose the message from the arguments of error_message()."""
        super().__init__(error_message(sentence, found, expected, instead))

    @classmethod
    @contextmanager
    def replacing(
        cls,
        kinds: type[Exception] | tuple[type[Exception], ...],
        sentence: str,
        expected: object = None,
        instead: object = None,
    ) -> Iterator[None]:
        """Raise this error in place of errors of these kinds in the block, and state the original error as `found`."""
        try:
            yield
        except kinds as error:
            found: object = error.strerror if isinstance(error, OSError) and error.strerror else error
            if isinstance(error, (AttributeError, LookupError, TypeError)):
                found = f"{type(error).__name__}: {error}"
            raise cls(sentence, found=found, expected=expected, instead=instead) from error


def reason_of(error: Exception) -> str:
    """Return the message of an error, or say that an unexpected error is a bug."""
    unexpected = f"{type(error).__name__}: {error}. This is a bug in spark-bucketing; please report it."
    return str(error) if isinstance(error, BucketingError) else unexpected


class ProfileError(BucketingError):
    """Raised if a dbt profile or its target cannot be read, or if the target does not support an operation."""


class SparkError(BucketingError):
    """Raised if Spark does not start, or does not execute a statement."""


class TableError(BucketingError):
    """Raised if a requested table does not exist or is not bucketed."""


class ExtensionError(BucketingError):
    """Raised if the session extension cannot be built: Spark or Java is missing, or the sources do not compile."""


class PlanError(BucketingError):
    """Raised if a plan cannot be read, or a query cannot be planned in time or rewritten."""


class ProjectError(BucketingError):
    """Raised if a dbt project does not compile, an artifact cannot be read, or a config is invalid."""


class EventLogError(BucketingError):
    """Raised if a Spark event log cannot be found or read."""
