"""Tests that edits of a model's config in YAML change only the affected lines."""

import textwrap

import pytest

from spark_bucketing.edits.config_changes import CannotEditError
from spark_bucketing.edits.properties import edit_properties

FILE = """\
# All of them.
version: 2

models:
  - name: other
    config: {buckets: 4}
  - name: events   # ours
    description: "Ä: 'x'"
    config:
      materialized: table  # for now
      # The keys of all joins.
      clustered_by:
        - user_id
        - ds

      tags: [a,   b]   # as they are
    # About columns.
    columns:
      - name: user_id
"""


def edited(text: str, **wanted: object) -> str:
    after = edit_properties(text, "events", wanted)
    assert edit_properties(after, "events", wanted) == after
    return after


def config(text: str) -> str:
    return f"models:\n  - name: events\n{textwrap.indent(text, '    ')}"


def test_value_is_replaced_in_place() -> None:
    assert edited(FILE, materialized="bucketed_table") == FILE.replace("table  #", "bucketed_table  #")


def test_list_keeps_its_style() -> None:
    assert edited(FILE, clustered_by=["a", "b: c"]) == FILE.replace("- user_id\n        - ds", "- a\n        - 'b: c'")


def test_scalar_replaces_a_list() -> None:
    old = "clustered_by:\n        - user_id\n        - ds"
    assert edited(FILE, clustered_by="a") == FILE.replace(old, "clustered_by: a")
    assert edited(FILE, clustered_by=[]) == FILE.replace(old, "clustered_by: []")


def test_new_key_comes_after_the_last_one() -> None:
    assert edited(FILE, buckets=8, sorted_by=["a"]) == FILE.replace(
        "# as they are\n", "# as they are\n      buckets: 8\n      sorted_by: [a]\n"
    )


def test_key_is_removed_with_its_lines() -> None:
    assert edited(FILE, clustered_by=None) == FILE.replace("      clustered_by:\n        - user_id\n        - ds\n", "")


def test_all_edits_at_once_with_crlf_and_bom() -> None:
    text = "\ufeff" + FILE.replace("\n", "\r\n")
    after = edited(text, materialized="view", clustered_by=["a"], tags=None, buckets=8)
    assert after == "\ufeff" + (
        FILE.replace("materialized: table", "materialized: view")
        .replace("- user_id\n        - ds", "- a")
        .replace("      tags: [a,   b]   # as they are\n", "      buckets: 8\n")
        .replace("\n", "\r\n")
    )


@pytest.mark.parametrize(
    ("before", "wanted", "after"),
    [
        ("config: {a: 1, b: 'x'}\n", {"a": 2, "c": "d,e"}, "config: {a: 2, b: 'x', c: 'd,e'}\n"),
        ("config: {}\n", {"a": 1}, "config: {a: 1}\n"),
        ("config: { a: 1 , b: 2 }\n", {"a": None}, "config: { b: 2 }\n"),
        ("config: {a: 1, b: 2, c: 3}\n", {"c": None, "b": None}, "config: {a: 1}\n"),
        ("config: {a: 1, # why\n  b: 2}\n", {"a": ["b"]}, "config: {a: [b], # why\n  b: 2}\n"),
        ("config: {\n  a: 1,\n  b: 2\n}\n", {"c": 3}, "config: {\n  a: 1,\n  b: 2, c: 3\n}\n"),
        ("config:\n  a: 1", {"b": 2}, "config:\n  a: 1\n  b: 2"),
        ("config:\n  a:\n  b: 2\n", {"a": 1}, "config:\n  a: 1\n  b: 2\n"),
        ("config:\n  a: ~\n", {"a": "yes"}, "config:\n  a: 'yes'\n"),
        ('config:\n  a: "x"\n', {"a": "y"}, 'config:\n  a: "y"\n'),
        ("config:\n  a: 'x'\n", {"a": "it's"}, "config:\n  a: 'it''s'\n"),
        ("config:\n  a: x\n", {"a": "1"}, "config:\n  a: '1'\n"),
        ("config:\n  a: x\n", {"a": "b\nc"}, 'config:\n  a: "b\\nc"\n'),
        ("config:\n  a: 1\n", {"a": True}, "config:\n  a: true\n"),
        ("config:\n  a: 1\n  b: 2\n", {"b": None, "c": 3}, "config:\n  a: 1\n  c: 3\n"),
        ("config:\n  a: 1\n  b: 2", {"b": None}, "config:\n  a: 1"),
        ("config:\n  a:   # why\n    - x\n", {"b": 2}, "config:\n  a:   # why\n    - x\n  b: 2\n"),
        ("config:\n  a:\n  - x\n  - y\n  b: 1\n", {"a": ["z"]}, "config:\n  a:\n  - z\n  b: 1\n"),
        ("config:\n  b: 1\n  a: [x, y]  # keys\n", {"a": ["z"]}, "config:\n  b: 1\n  a: [z]  # keys\n"),
        ("config:\n  a: |\n    text\n  b: 1\n", {"a": ["b"]}, "config:\n  a: [b]\n  b: 1\n"),
        (
            "config:\n  meta:\n    x: |\n      text\n  a: 1\n",
            {"a": 2},
            "config:\n  meta:\n    x: |\n      text\n  a: 2\n",
        ),
    ],
)
def test_other_yaml_styles_are_preserved(before: str, wanted: dict[str, object], after: str) -> None:
    assert edited(config(before), **wanted) == config(after)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("models: [", "not valid YAML"),
        (config("description: x\n"), "no config"),
        (config("config:\n"), "no config"),
        (config("config: text\n"), "not a mapping"),
        (config("config:\n  a: 1\n") + "  - name: events\n", "defines the model twice"),
        ("x: &x {a: 1}\n" + config("config: *x\n"), "anchor or alias"),
        ("x: &x {a: 1}\n" + config("config:\n  <<: *x\n  b: 1\n"), "merge key"),
        (config("config: &y\n  a: 1\n") + "  - name: z\n    config: *y\n", "anchor or alias"),
        ("n: &n 4\n" + config("config:\n  a: *n\n"), "anchor or alias"),
        ("models:\n  - &m\n    name: events\n    config:\n      a: 1\n  - *m\n", "defines the model twice"),
        (
            "models:\n  - &m\n    name: events\n    config:\n      a: 1\nothers:\n  - *m\n",
            "unexpected content",
        ),
        (config("config:\n  a: \"{{ var('n') }}\"\n"), "sets a with a Jinja expression"),
        (config("config:\n  a: [\"{{ var('n') }}\"]\n"), "sets a with a Jinja expression"),
        (config("config:\n  a:\n    - x  # why\n    - y\n"), "contains comments"),
        (config("config: {a: [x, # why\n  y]}\n"), "contains comments"),
    ],
)
def test_unsafe_edit_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(CannotEditError) as refused:
        edit_properties(text, "events", {"a": ["b"]})
    assert reason in str(refused.value)


def test_removal_of_a_comment_between_brackets_is_refused() -> None:
    with pytest.raises(CannotEditError, match="comments between its brackets"):
        edit_properties(config("config: {a: 1, # why\n  b: 2}\n"), "events", {"a": None})


def test_edit_that_removes_all_keys_is_refused() -> None:
    with pytest.raises(CannotEditError, match="without a key"):
        edit_properties(config("config:\n  a: 1\n"), "events", {"a": None})
