"""Errors whose text is meant for the user: what was found, what was expected, what to change; and exit codes."""

# Of all commands. The third also where nothing is known of a part; the last as shells say that SIGINT ended one.
CLEAN, FINDINGS, COULD_NOT_RUN, INTERRUPTED = 0, 1, 2, 130


def exit_code(states: set[str]) -> int:
    """What a script is to know: what is wrong goes before what is unknown, and that before success."""
    if "wrong" in states:
        return FINDINGS
    return COULD_NOT_RUN if "unknown" in states else CLEAN


class BucketingError(Exception):
    """Base of every error that this package raises on purpose."""


class ProfileError(BucketingError):
    """A dbt project or profile that cannot be read, or a target that is not an embedded Spark."""


class SparkError(BucketingError):
    """Spark did not start, or did not answer a statement."""


class TableError(BucketingError):
    """A table that was asked for does not exist or has no buckets."""


class ExtensionError(BucketingError):
    """The session extension cannot be built: Spark or Java is missing, or its sources do not compile."""


class PlanError(BucketingError):
    """Spark's answer to EXPLAIN cannot be read."""


class ProjectError(BucketingError):
    """A dbt project that does not compile, an artifact that cannot be read, or a config that makes no sense."""
