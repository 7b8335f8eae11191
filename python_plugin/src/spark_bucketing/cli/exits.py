"""Exit codes of all commands."""

from __future__ import annotations

CLEAN = 0
FINDINGS = 1
# Or nothing is known of a part.
COULD_NOT_RUN = 2
# As shells say that SIGINT ended a command.
INTERRUPTED = 130
