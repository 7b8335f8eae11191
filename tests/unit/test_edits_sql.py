"""Tests that edits of config() in SQL change only the affected arguments, in the style of the call."""

import pytest

from spark_bucketing.edits import sql_config
from spark_bucketing.edits.file_edits import CannotEditError
from spark_bucketing.edits.sql_config import edit_sql

BUCKETED = {"materialized": "bucketed_table", "clustered_by": ["user_id"], "buckets": 16}
ONE_LINE = "materialized='bucketed_table', clustered_by=['user_id'], buckets=16"


@pytest.mark.parametrize(
    ("before", "wanted", "after"),
    [
        pytest.param("select 1\n", {"buckets": 8}, "{{ config(buckets=8) }}\n\nselect 1\n", id="no call"),
        pytest.param("\nselect 1\n", {"buckets": 8}, "{{ config(buckets=8) }}\n\nselect 1\n", id="no call, empty line"),
        pytest.param("", {"buckets": 8}, "{{ config(buckets=8) }}\n\n", id="empty file"),
        pytest.param(
            "select 1\n",
            {**BUCKETED, "on_bucket_change": "rewrite"},
            "{{\n    config(\n        materialized='bucketed_table',\n        clustered_by=['user_id'],\n        buckets=16,\n"
            "        on_bucket_change='rewrite'\n    )\n}}\n\nselect 1\n",
            id="no call, long config",
        ),
        pytest.param("{{ config() }}\nx", BUCKETED, f"{{{{ config({ONE_LINE}) }}}}\nx", id="empty call"),
        pytest.param("{{ config( ) }}\nx", {"buckets": 8}, "{{ config( buckets=8) }}\nx", id="space in an empty call"),
        pytest.param(
            "{{ config(materialized='table') }}\nx", BUCKETED, f"{{{{ config({ONE_LINE}) }}}}\nx", id="one line"
        ),
        pytest.param(
            '{{- config( materialized = "table", tags = ["a"] ) -}}\n x',
            BUCKETED,
            '{{- config( materialized = "bucketed_table", tags = ["a"], clustered_by = ["user_id"], buckets = 16 ) -}}\n x',
            id="own spaces and quotes",
        ),
        pytest.param(
            "-- why\n{{\n  config(\n    materialized = 'table',\n    tags=['a, b)'],\n  )\n}}\n{# config(x=1) #}\nx",
            {"materialized": "bucketed_table", "buckets": 8},
            "-- why\n{{\n  config(\n    materialized = 'bucketed_table',\n    tags=['a, b)'],\n    buckets = 8,\n  )\n}}\n"
            "{# config(x=1) #}\nx",
            id="one argument per line, with a trailing comma",
        ),
        pytest.param(
            "{{ config(\n    materialized='table'\n) }}\nx",
            {"buckets": 8},
            "{{ config(\n    materialized='table',\n    buckets=8\n) }}\nx",
            id="one argument on a separate line",
        ),
        pytest.param(
            "{{ config(\n    a=1\n  , b=2\n) }}",
            {"buckets": 8},
            "{{ config(\n    a=1\n  , b=2\n  , buckets=8\n) }}",
            id="comma first",
        ),
        pytest.param(
            "{{ config(a=1,\n          b=2) }}",
            {"c": 3},
            "{{ config(a=1,\n          b=2,\n          c=3) }}",
            id="hanging",
        ),
        pytest.param("{% do config(a=1) %}x", {"a": 2}, "{% do config(a=2) %}x", id="do"),
        pytest.param(
            "{{ config({'a': 1, \"b\": [1]}) }}x",
            {"a": 2, "c": "d"},
            "{{ config({'a': 2, \"b\": [1], 'c': 'd'}) }}x",
            id="mapping",
        ),
        pytest.param("{{ config(a=1, b=2, c=3) }}", {"a": None}, "{{ config(b=2, c=3) }}", id="first argument removed"),
        pytest.param(
            "{{ config(a=1, b=2, c=3) }}", {"b": None}, "{{ config(a=1, c=3) }}", id="middle argument removed"
        ),
        pytest.param("{{ config(a=1, b=2,) }}", {"b": None}, "{{ config(a=1,) }}", id="last argument removed"),
        pytest.param("{{ config(a=1, b=2,) }}", {"b": None, "a": None}, "{{ config() }}", id="all arguments removed"),
        pytest.param(
            "{{ config(a=1, b=2) }}",
            {"a": None, "b": None, "c": 3},
            "{{ config(c=3) }}",
            id="all other arguments removed",
        ),
        pytest.param(
            "{{ config(\n  a=1,\n  b=2,\n) }}",
            {"a": None, "c": 3},
            "{{ config(\n  b=2,\n  c=3,\n) }}",
            id="one key removed, one key added",
        ),
        pytest.param("select 1", {"a": None}, "select 1", id="nothing to remove"),
        pytest.param("{{ config(a=true) }}", {"b": False}, "{{ config(a=true, b=false) }}", id="Jinja's booleans"),
        pytest.param("{{ config(a=1) }}", {"a": True}, "{{ config(a=true) }}", id="1 is not true"),
        pytest.param("{{ config(a=('b',)) }}", {"a": ["b"]}, "{{ config(a=('b',)) }}", id="a tuple is a list"),
        pytest.param("{{ config(a=-1) }}", {"a": -2}, "{{ config(a=-2) }}", id="negative"),
        pytest.param(
            "{{ config(a='x') }}", {"a": 'it\'s \\ "ü"\n'}, "{{ config(a='it\\'s \\\\ \"ü\"\\n') }}", id="escapes"
        ),
        pytest.param('{{ config(a="x") }}', {"a": 'say "x"'}, '{{ config(a="say \\"x\\"") }}', id="escaped quotes"),
        pytest.param(
            "{{ config(a=var('b'), c=1) }}{{ config.get('d') }}",
            {"c": 2},
            "{{ config(a=var('b'), c=2) }}{{ config.get('d') }}",
            id="logic in another argument, and config.get()",
        ),
        pytest.param(
            "{% raw %}{{ config() }}{% endraw %}",
            {"a": 1},
            "{{ config(a=1) }}\n\n{% raw %}{{ config() }}{% endraw %}",
            id="raw",
        ),
        pytest.param(
            "{{ adapter.config(a=3) }}{{ config(a=1) }}",
            {"a": 2},
            "{{ adapter.config(a=3) }}{{ config(a=2) }}",
            id="another macro of the same name",
        ),
        pytest.param("\ufeff{{ config(a=1) }}\r\nx\r\n", {"a": 2}, "\ufeff{{ config(a=2) }}\r\nx\r\n", id="BOM, CRLF"),
        pytest.param("\ufeffx\r\n", {"a": 2}, "\ufeff{{ config(a=2) }}\r\n\r\nx\r\n", id="BOM, CRLF, no call"),
        pytest.param(
            "ö\r\n\t{{-\tconfig(\r\n\ta=1,\r\n\t) }}\r\nx\n",
            {"b": 2},
            "ö\r\n\t{{-\tconfig(\r\n\ta=1,\r\n\tb=2,\r\n\t) }}\r\nx\n",
            id="CRLF and tabs in the call, other line endings after it",
        ),
    ],
)
def test_only_changed_arguments_are_written(before: str, wanted: dict[str, object], after: str) -> None:
    assert edit_sql(before, wanted) == after
    assert edit_sql(after, wanted) == after


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("{{ config(buckets=var('n')) }}", "sets buckets with a Jinja expression"),
        ("{{ config(buckets=8 if target.name == 'prod' else 2) }}", "sets buckets with a Jinja expression"),
        ("{{ config(buckets=[n]) }}", "sets buckets with a Jinja expression"),
        ("{{ config({'buckets': n}) }}", "sets buckets with a Jinja expression"),
        ("{{ config(a=1, **more) }}", "positional arguments"),
        ("{{ config(*more) }}", "positional arguments"),
        ("{{ config(a=1) }}{{ config(b=1) }}", "calls config() 2 times"),
        ("{% if x %}{{ config(a=1) }}{% endif %}", "inside other Jinja"),
        ("{{ config(a=1) if x }}", "inside other Jinja"),
        ("{% set y = config(a=1) %}", "inside other Jinja"),
        ("{% macro m() %}{{ config(a=1) }}{% endmacro %}", "inside other Jinja"),
        ("{{ config.set('a', 1) }}", "inside other Jinja"),
        ("{{ config(options) }}", "positional arguments"),
        ("{{ config({'a': 1}, b=2) }}", "positional arguments"),
        ("{{ config({a: 1}) }}", "positional arguments"),
        ("{{ config(a=1, a=2) }}", "a config key twice"),
        ("{{ config(a=1 }}", "Jinja cannot parse the model's SQL"),
        ("{% sometag %}", "Jinja cannot parse the model's SQL"),
    ],
)
def test_unsafe_edit_is_refused_with_the_reason(sql: str, reason: str) -> None:
    with pytest.raises(CannotEditError) as refused:
        edit_sql(sql, {"buckets": 8})
    assert reason in str(refused.value)


def test_value_without_a_literal_in_jinja_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        edit_sql("x", {"a": object()})


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param("{{ config(a=1, buckets=4) }}x", id="another value"),
        pytest.param("{{ config(a=2, buckets=8) }}x", id="another key changed"),
        pytest.param("{{ config(buckets=8) }}x", id="another key removed"),
        pytest.param("{{ config(a=1, buckets=8, b=1) }}x", id="another key added"),
        pytest.param("{{ config(a=1, buckets=8, c=1) }}x", id="a key not removed"),
        pytest.param("{{ config(a=1, buckets=8) }}y", id="different SQL"),
        pytest.param("{{ config(a=1, buckets=n) }}x", id="no value for a key"),
        pytest.param("{{ config(a=1, buckets=8 }}x", id="invalid Jinja"),
    ],
)
def test_edit_with_an_unexpected_result_is_refused(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_config, "_with_arguments", lambda *_: wrong)
    with pytest.raises(CannotEditError):
        edit_sql("{{ config(a=1, c=1) }}x", {"buckets": 8, "c": None})
