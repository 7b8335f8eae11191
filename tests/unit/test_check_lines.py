"""From lines of compiled SQL back to lines of a model's file."""

from __future__ import annotations

import time

import pytest

from spark_bucketing.check.source_lines import source_line

RAW = """
{{ config(materialized='table') }}

select *
from {{ ref('a') }} as a
join {{ ref('b') }} as b on a.k = b.k
{% if x %}
join c on c.k = a.k
{% endif %}
union all
select *
from {{ ref('a') }}
"""
COMPILED = """

select *
from s.a as a
join s.b as b on a.k = b.k

join c on c.k = a.k

union all
select *
from s.a"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("join s.b as b on a.k = b.k", 6),
        ("join c on c.k = a.k", 8),
        ("from s.a as a", 5),
        ("union all", 10),
    ],
)
def test_lines_are_found_again_below_what_jinja_took_away(text: str, line: int) -> None:
    assert source_line(COMPILED, COMPILED.splitlines().index(text) + 1, RAW) == line


def test_lines_that_are_there_twice_pair_up_in_order() -> None:
    numbers = [number for number, text in enumerate(COMPILED.splitlines(), 1) if text == "select *"]
    assert [source_line(COMPILED, number, RAW) for number in numbers] == [4, 11]


def test_a_line_that_could_be_from_several_places_is_none() -> None:
    assert source_line("x\ny\nselect k\nz", 3, "{% for i in l %}\nselect {{ i }}\n{% endfor %}\nselect {{ c }}") is None
    assert source_line("select 1\nselect 1", 2, "{% for i in l %}\nselect 1\n{% endfor %}") is None
    assert source_line("a\n\nb", 2, "a\n\nb\n{{ c }}") is None
    assert source_line("a", 7, "a") is None
    assert source_line("generated", 1, "{{ macro() }}") is None


def test_a_line_with_much_jinja_takes_no_time() -> None:
    raw = "select " + " ".join(f"{{{{ c{i} }}}}" for i in range(12)) + " end_of_line\n"
    compiled = "select " + " ".join("c" for _ in range(80)) + " from x join y on a\nselect 1"
    begun = time.monotonic()
    assert source_line(compiled, 1, raw) is None
    assert source_line("a c b c d e", 1, "a {{ x }} b {{ y }} d {{ z }}\n") == 1
    assert source_line("a b", 1, "a b{{ x }}b\n") is None
    assert time.monotonic() - begun < 1


def test_plain_sql_has_its_own_lines() -> None:
    assert source_line("select 1\nfrom t", 2, "\n\nselect 1\nfrom t\n") == 4
