"""Define the result of one check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "wrong", "unknown"]


@dataclass(frozen=True)
class Diagnosis:
    """The result of checking one subject."""

    subject: str  # for example Spark, or the name of a setting
    found: str
    state: State = "ok"  # `unknown` does not count as `ok`
    instead: str = ""  # the action to take; with the state `ok`, only if the finding matters to the project


def wrong(subject: str, found: str, instead: str) -> Diagnosis:
    """Return a diagnosis for a problem that prevents Spark from writing or using buckets."""
    return Diagnosis(subject, found, "wrong", instead)
