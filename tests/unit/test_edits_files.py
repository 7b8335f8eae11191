"""Tests that edits of a config in SQL or YAML change only the affected text, and that Jinja and YAML read the new config."""

import re
import textwrap
from typing import Any

import jinja2
import pytest
import yaml
from case_tables import cases
from hypothesis import event, given, settings
from hypothesis import strategies as st

from conftest import REPOSITORY
from spark_bucketing.edits import sql_config
from spark_bucketing.edits.file_edits import CannotEditError, in_jinja, in_yaml
from spark_bucketing.edits.sql_config import edit_sql
from spark_bucketing.edits.yaml_files import edit_properties

CASES = yaml.safe_load((REPOSITORY / "tests" / "cases" / "edits" / "sql.yml").read_text())


@pytest.mark.parametrize("case", CASES["edited"], ids=lambda case: case["name"])
def test_only_changed_arguments_are_written(case: dict[str, Any]) -> None:
    assert edit_sql(case["before"], case["wanted"]) == case["after"]
    assert edit_sql(case["after"], case["wanted"]) == case["after"]


@pytest.mark.parametrize(("reason", "sql"), [(reason, sql) for reason, of in CASES["refused"].items() for sql in of])
def test_unsafe_edit_of_sql_is_refused_with_the_reason(reason: str, sql: str) -> None:
    with pytest.raises(CannotEditError, match=re.escape(reason)):
        edit_sql(sql, {"buckets": 8})


def test_value_without_a_literal_in_jinja_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        edit_sql("x", {"a": object()})


WRONG = {
    "another value": "{{ config(a=1, buckets=4) }}x",
    "another key changed": "{{ config(a=2, buckets=8) }}x",
    "another key removed": "{{ config(buckets=8) }}x",
    "another key added": "{{ config(a=1, buckets=8, b=1) }}x",
    "different SQL": "{{ config(a=1, buckets=8) }}y",
    "no value for a key": "{{ config(a=1, buckets=n) }}x",
    "invalid Jinja": "{{ config(a=1, buckets=8 }}x",
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_edit_with_an_unexpected_result_is_refused(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_config, "_with_arguments", lambda *_: wrong)
    with pytest.raises(CannotEditError):
        edit_sql("{{ config(a=1) }}x", {"buckets": 8})


FILE = (REPOSITORY / "tests" / "cases" / "edits" / "properties.txt").read_text()
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
        ({"materialized": "bucketed_table"}, "table  #", "bucketed_table  #"),
        ({"clustered_by": ["a", "b: c"]}, LIST, "- a\n        - 'b: c'"),
        ({"clustered_by": ["a"]}, LIST, "- a"),
        ({"clustered_by": ["a", "b", "c"]}, LIST, "- a\n        - b\n        - c"),
        ({"clustered_by": ["user_id", "b"]}, LIST, "- user_id\n        - b"),
        ({"clustered_by": ["user_id"]}, LIST, "- user_id"),
        ({"buckets": 8, "sorted_by": ["a"]}, "as they are\n", "as they are\n      buckets: 8\n      sorted_by: [a]\n"),
    ],
)  # fmt: skip
def test_other_lines_do_not_change(wanted: dict[str, object], old: str, new: str, end: str) -> None:
    text = "\ufeff" + FILE.replace("\n", end)
    position = FILE.index(old, FILE.index("events"))
    expected = FILE[:position] + FILE[position:].replace(old, new, 1)
    assert edited(text, wanted) == "\ufeff" + expected.replace("\n", end)


@cases("edits/yaml", before=..., wanted=..., after=...)
def test_styles_of_yaml_are_kept(before: str, wanted: dict[str, object], after: str) -> None:
    assert edited(config(before), wanted) == config(after)


@cases("edits/refused", file=..., reason=...)
def test_unsafe_edit_of_yaml_is_refused_with_the_reason(file: str, reason: str) -> None:
    with pytest.raises(CannotEditError, match=reason):
        edit_properties(file, "events", {"a": ["b"]})


KEYS = st.sampled_from(["materialized", "buckets", "clustered_by", "sorted_by", "tags", "enabled", "Ünïcode"])
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], include_characters="\n\t"), max_size=8)
PLAIN = st.one_of(st.booleans(), st.integers(-9, 9), TEXT, st.sampled_from([0.5, -2.0]))
VALUES = st.one_of(PLAIN, st.lists(PLAIN, max_size=3), st.dictionaries(TEXT, PLAIN, max_size=2))
WANTED = st.dictionaries(KEYS, VALUES, min_size=1, max_size=4)
SPACES = st.sampled_from(["", " ", "  ", "\n    ", "\t", "\r\n\t"])
RESTS = ["", "select 1\n", "\r\n-- config(x=1)\r\n", " {# {{ config() }} #}\n{% set a = 1 %}{{ a }}\tü\n"]
REST = st.sampled_from(RESTS)


@st.composite
def sql_files(draw: st.DrawFn) -> tuple[str, list[tuple[str, str]]]:
    """Return a file with one config() call, and its arguments as pairs of key and text."""
    config = draw(st.dictionaries(KEYS, VALUES, max_size=5))
    is_mapping = draw(st.booleans()) and bool(config)
    arguments = []
    for key, value in config.items():
        quote = draw(st.sampled_from("'\""))
        name, sign = (in_jinja(key, quote), ":") if is_mapping else (key, "=")
        arguments.append((key, f"{name}{draw(SPACES)}{sign}{draw(SPACES)}{in_jinja(value, quote)}"))
    written = draw(SPACES) + f"{draw(SPACES)},{draw(SPACES)}".join(argument for _, argument in arguments)
    written += draw(st.sampled_from(["", ",", " ,\n"])) if arguments else ""
    inner = f"{{{written}}}" if is_mapping else written
    dash, after = draw(st.sampled_from(["", "-"])), draw(st.sampled_from(["", "-"]))
    bom = draw(st.sampled_from(["", "\ufeff"]))
    call = f"{{{{{dash}{draw(SPACES)}config({inner}){draw(SPACES)}{after}}}}}"
    return f"{bom}{draw(REST)}{call}{draw(REST)}", arguments


def read(sql: str) -> tuple[list[Any], str]:
    """Return the arguments of each call, and the rendered text."""
    calls: list[Any] = []

    def config(*mappings: Any, **keys: Any) -> str:
        calls.append(dict(*mappings, **keys))
        return ""

    return calls, jinja2.Environment(keep_trailing_newline=True).from_string(sql).render(config=config)


@given(sql_files(), WANTED)
@settings(max_examples=150)
def test_jinja_reads_the_requested_keys_and_no_other_change(
    file: tuple[str, list[Any]], wanted: dict[str, Any]
) -> None:
    before, arguments = file
    (old,), rendered = read(before)
    after = edit_sql(before, wanted)
    # repr() distinguishes 1 from True, but the comparison must ignore the order of dicts.
    assert exact(read(after)[0][0]) == exact({**old, **wanted})
    assert read(after)[1] == rendered
    assert all(argument in after for key, argument in arguments if key not in wanted)
    assert after[: before.index("config(")] == before[: before.index("config(")] or "{# " in before
    assert edit_sql(after, wanted) == after


def exact(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: exact(one) for key, one in value.items()}
    return [exact(one) for one in value] if isinstance(value, list) else repr(value)


@st.composite
def yaml_files(draw: st.DrawFn) -> tuple[str, list[str]]:
    """Return a file with a config for one model, and the file's comments."""
    config = draw(st.dictionaries(KEYS, VALUES, min_size=1, max_size=5))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    indent = draw(st.integers(1, 4))
    lines, comments = ["# first", "models:", "- name: other", "  config: {a: 1}", "- name: m"], ["# first"]
    if draw(st.booleans()):
        pairs = [f"{key}:{draw(st.sampled_from([' ', '  ']))}{in_yaml(value)}" for key, value in config.items()]
        lines.append("  config: {" + ", ".join(pairs) + "}  # flow")
        comments.append("# flow")
    else:
        lines.append("  config:")
        for number, (key, value) in enumerate(config.items()):
            if isinstance(value, list) and value and draw(st.booleans()):
                start = " " * draw(st.integers(0, 2))
                written = [f"{key}:", *(f"{start}- {in_yaml(item)}" for item in value)]
            else:
                written = [f"{key}: {in_yaml(value)}"]
            if draw(st.booleans()):
                written.insert(0, f"# before {number}")
                comments.append(f"# before {number}")
            lines += [" " * (2 + indent) + line for line in written]
    if draw(st.booleans()):
        lines += ["  # last", "  columns: [{name: k}]"]
        comments.append("# last")
    text = draw(st.sampled_from(["", "\ufeff"])) + end.join(lines) + draw(st.sampled_from(["", end]))
    return text, comments


@given(yaml_files(), WANTED)
@settings(max_examples=150)
def test_yaml_reads_the_requested_keys_and_no_other_change(file: tuple[str, list[str]], wanted: dict[str, Any]) -> None:
    before, comments = file
    data = yaml.safe_load(before)
    try:
        after = edit_properties(before, "m", wanted)
    except CannotEditError:
        event("refused")
        return
    data["models"][1]["config"] |= wanted
    assert exact(yaml.safe_load(after)) == exact(data)
    assert all(comment in after for comment in comments)
    assert after.partition("- name: m")[:2] == before.partition("- name: m")[:2]
    assert after.partition("  # last")[1:] == before.partition("  # last")[1:]
    # A value on one line of YAML may contain line breaks only as escapes inside quotes.
    assert after.count("\r\n") == (after.count("\n") if "\r\n" in before else 0)
    assert edit_properties(after, "m", wanted) == after


@given(VALUES)
def test_written_value_is_read_by_jinja_and_yaml(value: Any) -> None:
    assert repr(yaml.safe_load(f"[{in_yaml(value)}]")[0]) == repr(value)
    assert repr(read(f"{{{{ config(a={in_jinja(value)}) }}}}")[0][0]["a"]) == repr(value)
