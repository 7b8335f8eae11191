"""A session in which the extension's functions are not known, as where it is not loaded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def no_extension(spark: SparkSession) -> Iterator[None]:
    """Nothing can be asked for seals during a block."""
    registry = spark._jsparkSession.sessionState().tableFunctionRegistry()
    listed = registry.listFunction()
    name = next(listed.apply(i) for i in range(listed.size()) if listed.apply(i).funcName() == "bucket_specs")
    info, builder = registry.lookupFunction(name).get(), registry.lookupFunctionBuilder(name).get()
    registry.dropFunction(name)
    try:
        yield
    finally:
        registry.registerFunction(name, info, builder)
