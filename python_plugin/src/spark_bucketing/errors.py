"""Define errors with messages for users (what was found, what was expected, what to do), and exit codes."""

# Exit codes of all commands. 2 also means that the result of a part is unknown; 130 follows the shell convention for
# SIGINT.
CLEAN, FINDINGS, COULD_NOT_RUN, INTERRUPTED = 0, 1, 2, 130


def exit_code(states: set[str]) -> int:
    """Return the most important of several exit codes: findings take precedence over unknown, unknown over success."""
    if "wrong" in states:
        return FINDINGS
    return COULD_NOT_RUN if "unknown" in states else CLEAN


class BucketingError(Exception):
    """Base class of all errors that this package raises deliberately."""


class ProfileError(BucketingError):
    """A dbt project or profile cannot be read, or the target is not an embedded Spark."""


class SparkError(BucketingError):
    """Spark did not start, or did not execute a statement."""


class TableError(BucketingError):
    """A requested table does not exist or is not bucketed."""


class ExtensionError(BucketingError):
    """The session extension cannot be built: Spark or Java is missing, or the sources do not compile."""


class PlanError(BucketingError):
    """The output of EXPLAIN cannot be parsed."""


class ProjectError(BucketingError):
    """A dbt project does not compile, an artifact cannot be read, or a config is invalid."""


class EventLogError(BucketingError):
    """A Spark event log cannot be found or read."""
