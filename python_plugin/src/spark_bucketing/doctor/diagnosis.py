"""What was looked at, and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "wrong", "unknown"]


@dataclass(frozen=True)
class Diagnosis:
    """One thing that was looked at."""

    subject: str  # such as Spark, or the name of a setting
    found: str
    state: State = "ok"  # unknown is no pass
    instead: str = ""  # what to do, where it is not ok


def wrong(subject: str, found: str, instead: str) -> Diagnosis:
    """Something that keeps buckets from being written or used."""
    return Diagnosis(subject, found, "wrong", instead)
