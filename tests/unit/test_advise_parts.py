"""Tests of the advisor's input from plans and files, of the bucket specs that it derives, and of its choice."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise, product
from math import inf
from pathlib import Path
from typing import cast

import pytest
from case_tables import cases
from report_pages import Page, schema_errors, written
from sample_pages import ADVICE, SPEC

from conftest import REPOSITORY
from spark_bucketing.advice.advice import Advice, PlanSizes, QueryProof
from spark_bucketing.advice.advisor import Choice
from spark_bucketing.advice.proposal import Choices, Options, Workload, keys_of, options_of, orders_of, proposed
from spark_bucketing.advice.query_plans import Plans, RequiredLayout, Requirement
from spark_bucketing.advice.report import write_html, write_json, write_text
from spark_bucketing.advice.subjects import (
    AdvisedTable,
    AdviseRequest,
    ColumnStatistics,
    ProjectContext,
    TableSize,
    read_runs,
    read_sizes,
    refuse_unknown,
    table_sizes,
)
from spark_bucketing.checks.checked_query import Settings
from spark_bucketing.checks.project import CheckRequest
from spark_bucketing.errors import ProjectError
from spark_bucketing.event_log.plan_costs import Cost
from spark_bucketing.plan.document import TableFacts
from spark_bucketing.project.manifest import CatalogTable, Manifest, Node
from spark_bucketing.spec import BucketSpec

MIB, GIB = 2**20, 2**30
COLUMNS = {"k": "bigint", "j": "bigint", "x": "double", "ds": "date"}


def subject(name: str, size: int = 4 * GIB, spec: BucketSpec | None = None, **facts: ColumnStatistics) -> AdvisedTable:
    return AdvisedTable(TableFacts(name, COLUMNS, spec), TableSize(size, None, facts))


def join(query: str, a: str, b: str, *keys: str, moved: float = 40.0 * GIB) -> RequiredLayout:
    return RequiredLayout(query, "join", tuple(Requirement(name, keys, moved / 2, moved / 2, keys) for name in (a, b)))


def grouping(query: str, table: str, *keys: str, moved: float = 40.0 * GIB) -> RequiredLayout:
    return RequiredLayout(query, "aggregate", (Requirement(table, keys, moved, 0),))


def options_by_k(*names: str) -> dict[str, Options]:
    """Return the candidates for tables of 4 GiB that are bucketed by k."""
    return {name: options_of(subject(name), [("k",)], [], 256 * MIB) for name in names}


@cases("project/sizes", text=..., said="instead")
def test_invalid_sizes_are_rejected(tmp_path: Path, text: str, said: str) -> None:
    sizes = tmp_path / ("sizes.json" if text.startswith("{") else "sizes.yml")
    sizes.write_text(text)
    with pytest.raises(ProjectError, match=said):
        read_sizes(sizes)
    sizes = tmp_path / "valid.yml"
    sizes.write_text("Orders: 2GiB\nclicks: {bytes: 7, partitions: 3, columns: {K: {distinct: 5, largest: 0.5}}}\n")
    clicks = TableSize(7, 3, {"k": ColumnStatistics(5, 0.5)})
    assert read_sizes(sizes) == {"orders": TableSize(2 * GIB), "clicks": clicks}


@pytest.mark.parametrize(
    ("which", "status", "runs"),
    [("build", "success", 1), ("build", "error", 0), ("compile", "success", 0), ("generate", "success", 0), ("test", "success", 0)],
)  # fmt: skip
def test_successful_runs_of_commands_that_build_models_count(
    tmp_path: Path, which: str, status: str, runs: int
) -> None:
    for number, args in enumerate(({"args": {"which": which}}, {})):
        results = {**args, "results": [{"unique_id": "model.p.a", "status": "success" if number else status}]}
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "run_results.json").write_text(json.dumps(results))
    assert read_runs(tmp_path) == {"model.p.a": runs + 1.0}


@pytest.mark.parametrize("text", ["{}", '{"args": {"which": "test"}, "results": [{}]}', '{"a": Infinity}', '{"a": -1}'])
def test_file_without_runs_is_rejected(tmp_path: Path, text: str) -> None:
    (tmp_path / "runs.json").write_text(text)
    with pytest.raises(ProjectError, match=r"no run of any model|negative or not a number"):
        read_runs(tmp_path / "runs.json")


@pytest.mark.parametrize("name", ["Orders", "shop.orders", "MODEL.p.orders"])
def test_runs_are_found_by_every_accepted_name(tmp_path: Path, name: str) -> None:
    (tmp_path / "runs.json").write_text(json.dumps({name: 24, "other": 3}))
    node = Node("model.p.orders", "orders", "model", "", "`shop`.`orders`")
    request = AdviseRequest(CheckRequest())
    around = ProjectContext(request, Manifest({}), Settings(), {}, read_runs(tmp_path / "runs.json"))
    assert around.runs_of(node) == 24


def test_candidate_keys_are_join_keys_grouping_keys_and_their_common_subsets() -> None:
    required = [QUERIES["join"], grouping("b", "t", "k", "ds")]
    found = keys_of(Workload(False, required=required))
    assert set(found["u"]) == {("a", "b"), ("b", "a")}
    assert set(found["t"]) == {("j", "k"), ("k", "j"), ("ds", "k"), ("k",), ("ds",)}
    # The extension also joins tables that are bucketed by a subset of the keys.
    assert set(keys_of(Workload(True, required=[QUERIES["join"]]))["t"]) == {
        ("j", "k"),
        ("k", "j"),
        ("k",),
        ("j",),
    }


def test_unsuitable_keys_are_excluded_with_a_reason() -> None:
    one = subject("t", k=ColumnStatistics(5, 0.2), j=ColumnStatistics(10**6, 0.9))
    found = options_of(one, [("k",), ("j",), ("x",), ("y",), ("ds",)], [], 256 * MIB)
    assert {spec.bucket_columns for spec in found.specs if spec} == {("ds",)}
    assert set(found.left_out) == {("k",), ("j",), ("x",), ("y",)}
    assert "only 5 distinct values" in found.left_out["k",] and "90%" in found.left_out["j",]
    assert "double" in found.left_out["x",] and "unknown type" in found.left_out["y",]


def test_bucket_count_depends_on_the_size_of_one_partition_and_on_the_existing_count() -> None:
    table = TableFacts("t", COLUMNS, None, ("ds",))
    found = options_of(AdvisedTable(table, TableSize(100 * GIB, 100)), [("k",), ("ds",)], [], 256 * MIB)
    assert [spec.num_buckets for spec in found.specs if spec] == [4]
    assert "partition column" in found.left_out["ds",]
    existing = subject("t", 48 * 256 * MIB, BucketSpec(12, ("k",), ("k",), "hive"))
    found = options_of(existing, [("j",)], [], 256 * MIB)
    assert {spec.num_buckets for spec in found.specs if spec} == {12, 24, 48, 96, 192}


@pytest.mark.parametrize("extension", [True, False])
def test_joined_tables_get_matching_bucket_counts_even_without_the_extension(extension: bool) -> None:
    required = [join(f"q{number}", "t", "u", "k") for number in range(3)]
    tables = (("t", 8 * GIB, 16), ("u", 4 * GIB, 32))
    options = {name: options_of(subject(name, size), [("k",)], [number], 256 * MIB) for name, size, number in tables}
    small, large = sorted(
        spec.num_buckets for spec in proposed(options, Workload(extension, required=required)).specs.values()
    )
    assert large == small or (extension and large % small == 0)


SIDES = (Requirement("t", ("k", "j"), 1, 1, ("k", "j")), Requirement("u", ("a", "b"), 1, 1, ("a", "b")))
UNITED = (Requirement("t", ("k",), 1, 0), Requirement("u", ("a",), 2, 0))
QUERIES = {"join": RequiredLayout("q", "join", SIDES), "union": RequiredLayout("q", "aggregate", UNITED, united=True)}


def spec_of(text: str) -> BucketSpec | None:
    """Return the spec of text such as `8 k j`, or of `8 k, k j` with other sort columns."""
    by, _, order = text.partition(", ")
    number, *columns = by.split() or [""]
    return BucketSpec(int(number), tuple(columns), tuple(order.split() or columns), "hive") if text else None


@cases("project/gains", query=..., extension=True, all_keys=True, specs=..., gain=...)
def test_specs_serve_a_query_together(query: str, extension: bool, all_keys: bool, specs: list[str], gain: int) -> None:
    assert Workload(extension, all_keys).gain(QUERIES[query], [spec_of(one) for one in specs]) == gain


def test_files_are_also_sorted_by_window_order() -> None:
    requirement = RequiredLayout("w", "window", (Requirement("t", ("k",), 20.0 * GIB, 20.0 * GIB, ("k", "j")),))
    orders = orders_of([requirement])["t"]
    workload = Workload(True, required=[requirement])
    options = {"t": options_of(subject("t"), keys_of(workload)["t"], [], 256 * MIB, orders)}
    (spec,) = proposed(options, workload).specs.values()
    assert (spec.bucket_columns, spec.sort_columns) == (("k",), ("k", "j"))
    in_folders = replace(subject("t"), table=TableFacts("t", COLUMNS, None, ("j",)), facts=TableSize(GIB, 2))
    assert {spec.sort_columns for spec in options_of(in_folders, [("k",)], [], MIB, orders).specs if spec} == {("k",)}


def test_number_of_runs_decides_between_competing_models() -> None:
    options = {"t": options_of(subject("t"), [("k",), ("j",)], [], 256 * MIB)}
    by_k, by_j = grouping("a", "t", "k"), grouping("b", "t", "j", moved=30.0 * GIB)
    often = RequiredLayout("b", "aggregate", by_j.sides, runs=2)
    for second, key in ((by_j, "k"), (often, "j")):
        (spec,) = proposed(options, Workload(True, required=[by_k, second])).specs.values()
        assert spec.bucket_columns == (key,)
    found = proposed(options, Workload(True, required=[by_k, by_j])).explained("t", [])
    assert [one.verdict for one in found.candidates] == ["proposed", "another candidate saves more"]
    assert found.candidates[0].serves == ("a",)


def test_keys_without_a_hive_hash_get_the_spark_layout_without_evolution() -> None:
    columns = {"k": "bigint", "at": "timestamp", "d": "decimal(10,2)", "i": "interval day"}
    one = AdvisedTable(TableFacts("t", columns, None, ("ds",)), TableSize(GIB, 4), evolves=True)
    found = options_of(one, [("k",), ("k", "at"), ("d",), ("i",)], [], GIB)
    hashes = {spec.bucket_columns: spec.bucket_hash for spec in found.specs if spec}
    assert hashes == {("k",): "hive", ("k", "at"): "spark", ("d",): "hive"} and set(found.left_out) == {("i",)}
    assert [one.rewritten(spec) for spec in found.specs] == [0, 0, GIB, 0]


@pytest.mark.parametrize(
    ("evolves", "budget", "changed"),
    # Evolving tables do not consume the budget.
    [(False, 8 * GIB, "tu"), (False, 5 * GIB, "u"), (False, GIB, ""), (True, 4 * GIB, "tu"), (True, GIB, "t")],
)
def test_budget_limits_the_changes(evolves: bool, budget: int, changed: str) -> None:
    options = options_by_k("t", "u")
    options["t"] = replace(options["t"], subject=replace(options["t"].subject, evolves=evolves))
    required = [grouping("a", "t", "k"), grouping("b", "u", "k", moved=50.0 * GIB)]
    assert set(proposed(options, Workload(True, required=required), budget).specs) == set(changed)
    # A rarely read table is not worth a change.
    seldom = proposed(options, Workload(True, required=[grouping("a", "t", "k", moved=7.9 * GIB)]), budget)
    assert seldom.specs == {} and seldom.chosen["t"] == 0


def test_sizes_are_given_or_in_the_warehouse_or_in_the_catalog_or_assumed() -> None:
    manifest = Manifest({name: Node(name, name, "model", "", f"`s`.`{name}`") for name in "abcde"})
    live = {"a": CatalogTable({"k": "int"}, 7), "b": CatalogTable({"k": "int"}, None, 3)}
    documented = {"a": CatalogTable({}, 1), "b": CatalogTable({}, 2), "c": CatalogTable({}, 4)}
    given = {"s.d": TableSize(5, None, {"k": ColumnStatistics(1)})}
    expected = (TableSize(7), TableSize(2, 3), TableSize(4), given["s.d"], TableSize(6))
    assert table_sizes(manifest, given, (live, documented), 6) == dict(zip("abcde", expected, strict=True))


def test_unknown_names_are_rejected_with_the_nearest_name() -> None:
    node = Node("model.p.orders", "orders", "model", "", "`s`.`orders`")
    manifest = Manifest({node.unique_id: node})
    refuse_unknown(manifest, None, ["Orders", "s.orders", "model.p.orders"])
    with pytest.raises(ProjectError, match=r"(?s)`f.yml` .*found:    ordrs\n.*instead:  orders"):
        refuse_unknown(manifest, Path("f.yml"), ["ordrs"])


def test_tables_that_do_not_improve_any_plan_are_excluded() -> None:
    options = options_by_k("t")
    proposal = proposed(options, Workload(True, required=[grouping("a", "t", "k")]))
    same, less = PlanSizes(1, 0, 40 * GIB), PlanSizes()
    for after, dropped in ((same, ["t"]), (less, [])):
        proof = [QueryProof("a", "model.p.a", 1.0, same, after, tables=("t",))]
        assert proposal.not_borne_out(proof) == dropped
    # Writing costs 8 GiB for each table, but reading saves 12 GiB only once.
    together = proposed(
        options_by_k("t", "u"), Workload(True, required=[join(f"q{number}", "t", "u", "k") for number in range(2)])
    )
    proof = [QueryProof("a", "model.p.a", 1.0, PlanSizes(1, 0, 12 * GIB), less, tables=("t", "u"))]
    assert set(together.specs) == {"t", "u"} and together.not_borne_out(proof) == ["t"]


class PlansOfJoin:
    """The plans of a join of t and u, and of one more query of t, whose shuffles and sorts disappear with buckets."""

    def __init__(self, *tables: str) -> None:
        self._tables = tables  # the tables with a query of their own

    def proof(self, specs: Mapping[str, BucketSpec]) -> tuple[QueryProof, ...]:
        queries = {"join": ("t", "u"), **{name: (name,) for name in self._tables}}
        return tuple(
            QueryProof(query, f"model.p.{query}", 1.0, sizes(len(read)), sizes(len({*read} - {*specs})), tables=read)
            for query, read in queries.items()
        )


def sizes(tables: int) -> PlanSizes:
    return PlanSizes(tables, 0, 4 * GIB * tables, 4 * GIB * tables)


@pytest.mark.parametrize(("more", "paying", "costly"), [((), set(), {"t", "u"}), (("t",), {"t"}, {"u"})])
def test_costly_specs_complete_a_join_that_does_not_pay_off(
    more: tuple[str, ...], paying: set[str], costly: set[str]
) -> None:
    own = [grouping(name, name, "k", moved=8.0 * GIB) for name in more]
    required = [join("join", "t", "u", "k", moved=8.0 * GIB), *own]
    options = options_by_k("t", "u")
    choice = Choice(cast(Plans, PlansOfJoin(*more)), Workload(True, required=required), lambda _: None)
    proposal = choice.proposal(options)
    assert set(proposal.specs) == paying
    found = choice.costly(options, proposal)
    assert set(found.specs) == costly and {spec.num_buckets for spec in found.specs.values()} == {16}
    (gain,) = (one.gain for one in choice.proof(found, proposal.specs) if one.model == "join")
    nodes = {name: Node(f"model.p.{name}", name, "model", "") for name in ("t", "u")}
    assert gain == sum(change.write_bytes for change in found.changes(nodes)) == 8.0 * GIB * len(costly)


def test_text_report_starts_with_worse_models_and_excludes_unplanned_ones() -> None:
    text, page = written(write_text, ADVICE), written(write_html, ADVICE)
    assert text.startswith("Worse: 1 model\n  worse: 0 Exchanges")
    assert "2 of 3 models" in text and "Exchanges 2 to 1, Sorts 2 to 1" in text
    assert "Spark could not plan these models, so the advice does not cover them:\n  lost: Spark says <no>" in text
    assert "Spark says &lt;no&gt;" in page
    assert page.index("Worse") < page.index("Changes")
    assert '<p class="lead">project p · target p.dev · planned by Spark: offline</p>' in page


def test_html_page_has_as_many_cells_as_titles_and_shows_effects_by_color() -> None:
    lost, measured = ADVICE.changes[0], replace(ADVICE.changes[0], lost=(), measured=Cost(shuffle_bytes=1))
    for changes, logs, titles in (((lost,), "", 7), ((measured,), "a log", 7), ((lost, measured), "a log", 8)):
        page = written(write_html, replace(ADVICE, changes=changes, event_logs=logs))
        table = page.split("<h2>Changes</h2>")[1].split("</table>")[0]
        cells = [row.count("<th>") + row.count("<td>") for row in table.split("<tr>")[1:]]
        assert cells == [titles] * (1 + len(changes))
    assert "<td>2</td>" in page, "a whole number of runs has no decimals"
    better = replace(lost, unique_id="model.p.better", after=replace(SPEC, bucket_columns=("customer_id",) * 9))
    page = written(write_html, replace(ADVICE, changes=(better,)))
    assert "<script" not in page
    rows = re.findall(r'<tr class="(\w+)"><td>(\w+)</td><td>(\w*)</td>', page)
    assert set(rows) == {("better", "better", "worse"), ("worse", "worse", ""), ("unknown", "lost", "")}
    empty = written(write_html, Advice())
    assert "No change saves more than it costs." in empty and Page(empty)


def test_json_report_follows_its_schema() -> None:
    name, data = "advise.schema.json", json.loads(written(write_json, ADVICE))
    schema = json.loads((REPOSITORY / "docs" / "reference" / name).read_text())
    assert schema_errors(name, data) == [] and set(data) == set(schema["required"]) == set(schema["properties"])
    # A table without candidates is explained.
    explanation = proposed({}, Workload(True, all_keys=False)).explained("view", [])
    (left_out,) = explanation.left_out
    assert left_out.table == "view" and "uses columns of this table as keys" in left_out.reason
    assert schema_errors(name, json.loads(written(write_json, Advice(explained=explanation)))) == []
    assert schema_errors(name, {**data, "worse": [1]})


def random_choices(seed: int, names: int = 6) -> Choices:
    """Return a small problem: a few specs per table, each with a cost, and joins that use some of these specs."""
    chance = random.Random(seed)
    tables = [f"t{number}" for number in range(chance.randint(2, names))]
    values = {name: [0.0, *(chance.randint(-20, 12) for _ in range(chance.randint(1, 3)))] for name in tables}
    together = {}
    for place, a in enumerate(tables):
        for b in tables[place + 1 :]:
            if chance.random() < 0.5:
                together[a, b] = [[float(chance.randint(0, 25)) for _ in values[b]] for _ in values[a]]
    weights = {name: [0, *[chance.randint(1, 20)] * (len(options) - 1)] for name, options in values.items()}
    return Choices(values, together, weights)


def weight(choices: Choices, chosen: Mapping[str, int]) -> float:
    return sum(choices.weights[name][place] for name, place in chosen.items())


def best(choices: Choices, limit: float) -> float:
    names = list(choices.values)
    tried = (dict(zip(names, at, strict=True)) for at in product(*(range(len(choices.values[n])) for n in names)))
    return max(choices.value(one) for one in tried if weight(choices, one) <= limit)


@pytest.mark.parametrize("budget", [inf, 0.5])
def test_choice_is_within_the_budget_and_close_to_the_best_choice(budget: float) -> None:
    missed, total, exact = 0.0, 0.0, 0
    for seed in range(300):
        choices = random_choices(seed)
        limit = sum(max(weights) for weights in choices.weights.values()) * budget
        chosen, most = choices.choose(limit), best(choices, limit)
        assert weight(choices, chosen) <= limit
        value = choices.value(chosen)
        missed, total, exact = missed + most - value, total + most, exact + (value == most)
    assert missed / total < 0.005, "regret"
    assert exact >= 285


def test_tables_change_together_and_equal_choices_are_deterministic() -> None:
    neither_alone = Choices({"a": [0, -1], "b": [0, -1]}, {("a", "b"): [[0, 0], [0, 5]]})
    assert neither_alone.choose() == {"a": 1, "b": 1}
    equal = Choices({"a": [0, 5, 5], "b": [0, 0]}, {("a", "b"): [[0, 0], [1, 1], [1, 1]]})
    assert equal.choose() == {"a": 1, "b": 0}


def test_chain_of_many_tables_is_chosen_exactly() -> None:
    names = [f"t{number:04}" for number in range(1000)]
    alternating = [[0.0, 2.0], [3.0, 0.0]]
    choices = Choices({name: [0.0, 0.0] for name in names}, dict.fromkeys(pairwise(names), alternating))
    # The gains of the tables alternate between 3 and 2, starting and ending with 3.
    assert choices.value(choices.choose()) == 500 * 3 + 499 * 2
