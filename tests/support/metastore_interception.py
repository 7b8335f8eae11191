"""Observe or extend calls from Spark and the extension to the metastore, or make them fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

# Takes the metastore client and a function that makes the call, and returns the result of the call.
Act = Callable[[Any, Callable[[], Any]], Any]


class _Handler:
    """Implements Java's InvocationHandler: passes calls of one method to `act`, and forwards all other calls."""

    def __init__(self, client: Any, name: str, act: Act) -> None:
        self.client, self.name, self.act = client, name, act

    def invoke(self, _: Any, method: Any, arguments: Any) -> Any:
        def call() -> Any:
            try:
                return method.invoke(self.client, arguments)
            except Py4JJavaError as error:
                # Raise the metastore's exception itself, not the reflection error that wraps it.
                raise Py4JJavaError("", error.java_exception.getCause()) from error

        return self.act(self.client, call) if method.getName() == self.name else call()

    class Java:
        implements = ("java.lang.reflect.InvocationHandler",)


@contextmanager
def intercepted(spark: SparkSession, name: str, act: Act) -> Iterator[None]:
    """Pass each call of this name from this thread to a function, inside the block."""
    from pyspark.java_gateway import ensure_callback_server_started

    gateway: Any = spark.sparkContext._gateway
    jvm: Any = spark.sparkContext._jvm
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    # Spark creates this thread's client with its first call.
    spark.sql("show databases").collect()
    conf = spark._jsparkSession.sharedState().externalCatalog().unwrapped().client().conf()
    hive = jvm.org.apache.hadoop.hive.ql.metadata.Hive.get(conf)
    client = hive.getMSC()
    interface = jvm.java.lang.Class.forName("org.apache.hadoop.hive.metastore.IMetaStoreClient")
    interfaces = gateway.new_array(jvm.java.lang.Class, 1)
    interfaces[0] = interface
    proxy = jvm.java.lang.reflect.Proxy.newProxyInstance(
        interface.getClassLoader(), interfaces, _Handler(client, name, act)
    )
    field = hive.getClass().getDeclaredField("metaStoreClient")
    field.setAccessible(True)
    field.set(hive, proxy)
    parameters = gateway._callback_server.callback_server_parameters
    parameters.propagate_java_exceptions = True
    try:
        yield
    finally:
        parameters.propagate_java_exceptions = False
        field.set(hive, client)


@contextmanager
def failing(spark: SparkSession, name: str, number: int = 0, error: Exception | None = None) -> Iterator[list[str]]:
    """Make all calls of this name fail inside the block, or only the one with this number (from 1); list all calls."""
    seen: list[str] = []

    def act(_: Any, call: Callable[[], Any]) -> Any:
        seen.append(name)
        if number in (0, len(seen)):
            raise error or RuntimeError(f"{name} failed on purpose")
        return call()

    with intercepted(spark, name, act):
        yield seen
