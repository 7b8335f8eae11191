"""What a test needs of Spark's version."""

from __future__ import annotations

import pyspark
import pytest

SPARK = tuple(map(int, pyspark.__version__.split(".")[:2]))

needs_scripts = pytest.mark.skipif(SPARK < (4, 1), reason="the macros need SQL scripts, which Spark has from 4.1 on")
needs_collations = pytest.mark.skipif(SPARK < (4, 0), reason="Spark has collations from 4.0 on")
needs_sql_parameters = pytest.mark.skipif(SPARK < (4, 1), reason="Spark hands parameters to the parser from 4.1 on")
