"""Define exit codes and errors.

The message of an error states the problem, the expected state and the remedy.
"""

# Exit codes of all commands. 2 also means that part of the result is unknown. 130 is the shell's code for SIGINT.
CLEAN, FINDINGS, COULD_NOT_RUN, INTERRUPTED = 0, 1, 2, 130


def exit_code(states: set[str]) -> int:
    """Return the exit code for the states of several checks.

    Findings take precedence over unknown states, and unknown states take precedence over success.
    """
    if "wrong" in states:
        return FINDINGS
    return COULD_NOT_RUN if "unknown" in states else CLEAN


class BucketingError(Exception):
    """Base class of all errors that this package raises deliberately."""


class ProfileError(BucketingError):
    """Raised if a dbt project or profile cannot be read, or if the target is not an embedded Spark."""


class SparkError(BucketingError):
    """Raised if Spark does not start, or does not execute a statement."""


class TableError(BucketingError):
    """Raised if a requested table does not exist or is not bucketed."""


class ExtensionError(BucketingError):
    """Raised if the session extension cannot be built: Spark or Java is missing, or the sources do not compile."""


class PlanError(BucketingError):
    """Raised if the output of EXPLAIN cannot be parsed."""


class ProjectError(BucketingError):
    """Raised if a dbt project does not compile, an artifact cannot be read, or a config is invalid."""


class EventLogError(BucketingError):
    """Raised if a Spark event log cannot be found or read."""
