"""Generate parts of the output of EXPLAIN FORMATTED."""

from __future__ import annotations


def plan(tree: str, *details: str) -> str:
    return f"== Physical Plan ==\n{tree}\n\n\n" + "\n\n".join(details) + "\n"


def scan(number: int, table: str, first: int) -> str:
    return (
        f"({number}) Scan parquet spark_catalog.d.{table}\nOutput [2]: [k#{first}, v#{first + 1}L]\n"
        "Bucketed: true\nLocation: InMemoryFileIndex [file:/x]"
    )


def exchange(number: int, key: str) -> str:
    return (
        f"({number}) Exchange\nInput [2]: [{key}, w#99L]\n"
        f"Arguments: hashpartitioning({key}, 8), ENSURE_REQUIREMENTS, [plan_id=1]"
    )


def sort(number: int, key: str) -> str:
    return f"({number}) Sort\nInput [2]: [{key}, w#99L]\nArguments: [{key} ASC NULLS FIRST], false, 0"


def join(number: int, left: str, right: str, kind: str = "Inner", name: str = "SortMergeJoin") -> str:
    return f"({number}) {name}\nLeft keys [1]: [{left}]\nRight keys [1]: [{right}]\nJoin type: {kind}\nJoin condition: None"
