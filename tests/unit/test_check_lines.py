"""Tests that lines of compiled SQL are mapped to lines of the model's file."""

from __future__ import annotations

import time

import pytest

from spark_bucketing.checks.sql_text import source_line

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
    ("compiled", "number", "raw", "line"),
    [
        # Jinja that renders to nothing does not shift other lines.
        (COMPILED, 5, RAW, 6),
        (COMPILED, 7, RAW, 8),
        (COMPILED, 4, RAW, 5),
        (COMPILED, 9, RAW, 10),
        # Duplicate lines match in order.
        (COMPILED, 3, RAW, 4),
        (COMPILED, 10, RAW, 11),
        # A line with several or no possible origins maps to None.
        ("x\ny\nselect k\nz", 3, "{% for i in l %}\nselect {{ i }}\n{% endfor %}\nselect {{ c }}", None),
        ("select 1\nselect 1", 2, "{% for i in l %}\nselect 1\n{% endfor %}", None),
        ("a\n\nb", 2, "a\n\nb\n{{ c }}", None),
        ("a", 7, "a", None),
        ("generated", 1, "{{ macro() }}", None),
        # Pieces of text must occur in order and must not overlap.
        ("a c b c d e", 1, "a {{ x }} b {{ y }} d {{ z }}\n", 1),
        ("a d c b e", 1, "a {{ x }} b {{ y }} d {{ z }}\n", None),
        ("a b", 1, "a b{{ x }}b\n", None),
        ("a b", 1, "a{{ x }} {{ y }}b\n", 1),
        # Plain SQL maps to itself.
        ("select 1\nfrom t", 2, "\n\nselect 1\nfrom t\n", 4),
    ],
)
def test_compiled_line_is_found_in_the_model(compiled: str, number: int, raw: str, line: int | None) -> None:
    assert source_line(compiled, number, raw) == line


def test_line_with_much_jinja_is_mapped_quickly() -> None:
    raw = "select " + " ".join(f"{{{{ c{i} }}}}" for i in range(12)) + " end_of_line\n"
    start = time.process_time()
    assert source_line("select " + "c " * 80 + "from x join y on a\nselect 1", 1, raw) is None
    assert time.process_time() - start < 1
