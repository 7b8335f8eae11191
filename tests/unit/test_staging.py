"""Names of the hidden folders of a rewrite."""

from __future__ import annotations

import pytest

from spark_bucketing.evolution.staging import hidden_of, home_of


def test_a_hidden_folder_says_where_the_partition_was() -> None:
    location = "file:/w/t/.bucketing-0123456789ab-ZHM9YQ/ds=a"
    assert home_of(location) == "file:/w/t/ds=a"
    assert hidden_of(location) == "file:/w/t/.bucketing-0123456789ab-ZHM9YQ"


@pytest.mark.parametrize(
    "location",
    [
        "file:/w/t/ds=a",
        "file:/w/t/.bucketing-0123456789ab-a/x",
        "file:/w/t/.bucketing-0123456789ab-_w/x",
        "file:/w/t/.bucketing-0123456789ab-ZHM9YR/ds=a",
        "file:/w/t/.bucketing-0123456789ab-YS9i/x",
        "file:/w/t/.bucketing-0123456789ab-ZHM9YQ",
        "file:/w/t/.bucketing-abc-ZHM9YQ/ds=a",
    ],
    ids=[
        "a partition's",
        "of no base64",
        "of no text",
        "of other bits",
        "of a path",
        "without a folder in it",
        "of another number of digits",
    ],
)
def test_a_folder_that_only_looks_like_one_is_somebody_elses(location: str) -> None:
    assert home_of(location) == hidden_of(location) == location
