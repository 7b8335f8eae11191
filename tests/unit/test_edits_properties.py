"""Tests that edits of a model's config in YAML change only the affected lines, or are refused."""

import textwrap

import pytest

from spark_bucketing.edits.file_edits import CannotEditError
from spark_bucketing.edits.yaml_files import edit_properties

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
LIST = "- user_id\n        - ds"


def edited(text: str, wanted: dict[str, object]) -> str:
    after = edit_properties(text, "events", wanted)
    assert edit_properties(after, "events", wanted) == after
    return after


def config(text: str) -> str:
    return f"models:\n  - name: events\n{textwrap.indent(text, '    ')}"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("wanted", "old", "new"),
    [
        ({"materialized": "bucketed_table"}, "table  #", "bucketed_table #"),
        ({"clustered_by": ["a", "b: c"]}, LIST, "- a\n        - 'b: c'"),
        ({"clustered_by": ["a"]}, LIST, "- a"),
        ({"clustered_by": ["a", "b", "c"]}, LIST, "- a\n        - b\n        - c"),
        ({"buckets": 8, "sorted_by": ["a"]}, "config:\n", "config:\n      buckets: 8\n      sorted_by: [a]\n"),
        ({"materialized": "view", "buckets": 8}, "config:\n      materialized: table", "config:\n      buckets: 8\n      materialized: view "),
    ],
)  # fmt: skip
def test_other_lines_do_not_change(wanted: dict[str, object], old: str, new: str, end: str) -> None:
    text = "\ufeff" + FILE.replace("\n", end)
    position = FILE.index(old, FILE.index("events"))
    expected = FILE[:position] + FILE[position:].replace(old, new, 1)
    assert edited(text, wanted) == "\ufeff" + expected.replace("\n", end)


@pytest.mark.parametrize(
    ("before", "wanted", "after"),
    [
        ("config: {a: 1, b: 'x'}\n", {"a": 2, "c": "d,e"}, "config: {c: 'd,e', a: 2, b: 'x'}\n"),
        ("config: {}\n", {"a": 1}, "config:\n  a: 1\n"),
        ("config: {a: 1, b: 2, c: 3}\n", {"c": None, "b": None}, "config: {a: 1}\n"),
        ("config:\n  a: 1", {"b": 2}, "config:\n  b: 2\n  a: 1"),
        ("config:\n  a:\n  b: 2\n", {"a": 1}, "config:\n  a: 1\n  b: 2\n"),
        ("config:\n  a: ~\n", {"a": "yes"}, "config:\n  a: 'yes'\n"),
        ('config:\n  a: "x"\n', {"a": "y"}, 'config:\n  a: "y"\n'),
        ("config:\n  a: 'x'\n", {"a": "it's"}, "config:\n  a: 'it''s'\n"),
        ("config:\n  a: x\n", {"a": "1"}, "config:\n  a: '1'\n"),
        ("config:\n  a: x\n", {"a": "b\nc"}, 'config:\n  a: "b\\nc"\n'),
        ("config:\n  a: 1\n", {"a": True}, "config:\n  a: true\n"),
        ("config:\n  a: 1\n  b: 2\n", {"b": None, "c": 3}, "config:\n  c: 3\n  a: 1\n"),
        ("config:\n  a: 1\n  b: 2  # why\n", {"b": None}, "config:\n  a: 1\n"),
        ("config:\n  a:   # why\n    - x\n", {"b": 2}, "config:\n  b: 2\n  a:   # why\n    - x\n"),
        ("config:\n  b: 1\n  a: [x, y]  # keys\n", {"a": ["z"]}, "config:\n  b: 1\n  a: [z]     # keys\n"),
        ("config:\n  a: |\n    text\n  b: 1\n", {"a": ["b"]}, "config:\n  a: [b]\n  b: 1\n"),
        ("config:\n  meta:\n    x: |\n      text\n  a: 1\n", {"a": 2}, "config:\n  meta:\n    x: |\n      text\n  a: 2\n"),
    ],
)  # fmt: skip
def test_styles_of_yaml_are_kept(before: str, wanted: dict[str, object], after: str) -> None:
    assert edited(config(before), wanted) == config(after)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("models: [", "not valid YAML"),
        (config("description: x\n"), "no config"),
        (config("config:\n"), "no config"),
        (config("config: text\n"), "not a mapping"),
        (config("config:\n  a: 1\n") + "  - name: events\n", "defines the model twice"),
        (config("config:\n  a: \"{{ var('n') }}\"\n"), "sets a with a Jinja expression"),
        (config("config:\n  a: [\"{{ var('n') }}\"]\n"), "sets a with a Jinja expression"),
        ("x: &x {a: 1}\n" + config("config: *x\n"), "cannot be edited"),
        (config("config: &y\n  a: 1\n") + "  - name: z\n    config: *y\n", "cannot be edited"),
        ("models:\n  - &m\n    name: events\n    config:\n      a: 1\nothers:\n  - *m\n", "cannot be edited"),
        (config("config:\n  a:\n    - x  # why\n    - y\n"), "cannot be edited"),
        (config("config: {a: [x, # why\n  y]}\n"), "cannot be edited"),
    ],
)
def test_unsafe_edit_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(CannotEditError) as refused:
        edit_properties(text, "events", {"a": ["b"]})
    assert reason in str(refused.value)


@pytest.mark.parametrize("text", ["config:\n  a: 1\n", "config:\n  a: 1\n  # About b.\n  b: 1\n"])
def test_removal_of_all_keys_or_of_comments_is_refused(text: str) -> None:
    with pytest.raises(CannotEditError, match="cannot be edited"):
        edit_properties(config(text), "events", {"a": None})
