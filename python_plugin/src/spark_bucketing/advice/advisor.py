"""Implement `spark-bucketing advise`, from the command's arguments to its result."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from math import inf
from pathlib import Path

from spark_bucketing.advice import subjects
from spark_bucketing.advice.advice import Advice, Candidates, QueryProof, RejectedTable
from spark_bucketing.advice.proposal import (
    Options,
    Proposal,
    Workload,
    choices_of,
    keys_of,
    numbers_beside,
    options_of,
    orders_of,
    proposed,
    suggested,
)
from spark_bucketing.advice.query_plans import Plans
from spark_bucketing.advice.subjects import AdvisedTable, AdviseRequest, OnProgress, ProjectContext
from spark_bucketing.checks.checked_query import Setting
from spark_bucketing.checks.checker import TimeLimit
from spark_bucketing.checks.project import Project, about, in_folder, open_planner, planner_settings_of
from spark_bucketing.checks.stub_tables import StubTables
from spark_bucketing.edits import apply, plan_edits
from spark_bucketing.errors import ProjectError
from spark_bucketing.event_log.measured import read_measured
from spark_bucketing.plan.planner import Planner
from spark_bucketing.project.manifest import CatalogTable, Manifest, Node, table_name
from spark_bucketing.project.profile import read_target
from spark_bucketing.spec import BucketSpec

# Maximum number of new choices after Spark's plans contradict an estimate.
_MOST_ROUNDS = 10


def advise_project(request: AdviseRequest, on_progress: OnProgress = lambda _: None) -> Advice:
    """Plan the project, choose bucket specs, and verify the choice with Spark's planner."""
    given = subjects.read_sizes(request.sizes) if request.sizes else {}
    runs = subjects.read_runs(request.runs) if request.runs else {}
    if request.explain and request.apply:
        raise ProjectError(
            "The options `--explain` and `--apply` cannot be combined.",
            expected="at most one of them",
            instead="run `--explain` first, then `--apply`",
        )
    if request.profile and request.check.offline:
        raise ProjectError(
            "The option `--profile` needs a warehouse, which `--offline` does not use.",
            expected="at most one of them",
            instead="`--sizes FILE` with `distinct` and `largest` for the columns",
        )
    target = read_target(request.check.place, request.check.variables)
    project = Project(target, request.check)
    with in_folder(target.project_dir):
        on_progress("starting Spark")
        with open_planner(project) as planner:
            settings, _ = planner_settings_of(project, planner)
            on_progress("compiling the project")
            artifacts = project.artifacts()
            live = {} if request.check.offline else subjects.live_catalog(planner, artifacts.manifest)
            subjects.refuse_unknown(artifacts.manifest, request.sizes, given)
            # Past runs, listed by unique id, may include models that no longer exist.
            subjects.refuse_unknown(artifacts.manifest, request.runs, (name for name in runs if name.count(".") < 2))
            gone = tuple(
                RejectedTable(name, "--runs lists this name, but the project does not contain it")
                for name in subjects.unknown_names(artifacts.manifest, runs)
            )
            sizes = subjects.table_sizes(artifacts.manifest, given, (live, artifacts.catalog), request.assume_size)
            measured = read_measured(request.event_logs, on_progress, target.name) if request.event_logs else None
            if measured and not runs:
                runs = subjects.measured_runs(measured, _by_table(artifacts.manifest))
            around = ProjectContext(request, artifacts.manifest, settings, sizes, runs, measured)
            # The planner uses the known and the given sizes.
            columns = {name: table.columns for name, table in {**artifacts.catalog, **live}.items()}
            catalog = {name: CatalogTable(columns.get(name, {}), one.size_bytes) for name, one in sizes.items()}
            advice = _advised(around, planner, catalog, target.project_dir, on_progress)
        advice = replace(advice, left_out=(*advice.left_out, *gone))
        advice = _with_edits(advice, artifacts.path, target.project_dir, request.apply)
    return replace(advice, about=about(target))


def _with_edits(advice: Advice, manifest: Path, project_dir: Path, applied: bool) -> Advice:
    if not advice.changes:
        return advice
    changes = {change.unique_id: change.config for change in advice.changes}
    edits, refusals = plan_edits(project_dir, json.loads(manifest.read_text(encoding="utf-8")), changes)
    if applied:
        apply(project_dir, edits)
    return replace(advice, edits=tuple(edits), refusals=tuple(refusals), applied=applied)


def _by_table(manifest: Manifest) -> dict[str, str]:
    # If a model and a source have the same table, the model builds it: sources come first.
    nodes = sorted(manifest.nodes.items(), reverse=True)
    return {table_name(node.relation): unique_id for unique_id, node in nodes if node.relation}


def _advised(
    around: ProjectContext,
    planner: Planner,
    catalog: Mapping[str, CatalogTable],
    project_dir: Path,
    on_progress: OnProgress,
) -> Advice:
    request, manifest = around.request, around.manifest
    stub = StubTables(planner, manifest, catalog, project_dir)
    plans = Plans(planner, stub, manifest, around.runs_of, TimeLimit(request.check.time_limit))
    plans.plan_all(on_progress)
    measured = around.measured
    # Event logs name nodes whose statements have no query comment by their tables.
    nodes = {*manifest.nodes, *(f"table.{name}" for name in _by_table(manifest))}
    unplanned = subjects.unplanned_layouts(measured, nodes) if measured else ()
    rules = around.settings.extension, around.settings.on(Setting.ALL_KEYS)
    workload = Workload(*rules, (*plans.required, *unplanned), unplanned)
    models, sources, left_out = subjects.subjects_of(around, planner, stub)
    options = _options(around, {**models, **sources}, workload, planner, on_progress)
    own = {name: one for name, one in options.items() if name in models}
    on_progress("choosing")
    choice = Choice(plans, workload, on_progress)
    proposal = choice.proposal(own, inf if request.max_rewrite is None else request.max_rewrite)
    left_out += [RejectedTable(name, "the plan shows no net gain") for name in own if name not in proposal.options]
    left_out += [
        RejectedTable(name, why, keys) for name, one in proposal.options.items() for keys, why in one.left_out.items()
    ]
    left_out += subjects.cast_columns(plans.cast_keys, models)
    by_table = {table_name(stub.relation(node) or ""): node for node in manifest.nodes.values() if node.relation}
    costs = subjects.ranked(measured) if measured else ()
    changes = proposal.changes(by_table)
    costly = choice.costly(own, proposal) if request.costly else None
    return Advice(
        changes=subjects.with_costs(changes, costs) if measured else changes,
        measured=costs,
        unattributed=measured.unattributed if measured else None,
        event_logs=measured.summary if measured else "",
        proof=plans.proof(proposal.specs),
        left_out=tuple(sorted(left_out, key=lambda one: (one.table, one.keys))),
        suggestions=suggested({name: one for name, one in options.items() if name in sources}, workload),
        planner=f"{planner.label}, {'with' if workload.extension else 'without'} the session extension",
        explained=_explained(request.explain, by_table, proposal, left_out) if request.explain is not None else None,
        costly=costly.changes(by_table) if costly else (),
        costly_proof=choice.proof(costly, proposal.specs) if costly else (),
    )


@dataclass(frozen=True)
class Choice:
    """Chooses specs, plans the queries with them, and chooses again without the tables that do not gain."""

    plans: Plans
    workload: Workload
    on_progress: OnProgress

    def proposal(
        self, own: Mapping[str, Options], most_bytes: float = inf, given: Mapping[str, BucketSpec] | None = None
    ) -> Proposal:
        """Propose specs for these tables, in addition to given specs of other tables."""
        proposal = proposed(own, self.workload, most_bytes)
        for _ in range(_MOST_ROUNDS):
            self.on_progress("planning the proposal")
            dropped = proposal.not_borne_out(self.proof(proposal, given or {}))
            if not dropped:
                break
            own = {name: one for name, one in own.items() if name not in dropped}
            proposal = proposed(own, self.workload, most_bytes)
        return proposal

    def proof(self, proposal: Proposal, given: Mapping[str, BucketSpec]) -> tuple[QueryProof, ...]:
        """Plan all queries with the given specs, and then with the proposed specs as well."""
        after = self.plans.proof({**given, **proposal.specs})
        if not given:
            return after
        before = {one.unique_id: one.after for one in self.plans.proof(given)}
        return tuple(replace(one, before=before[one.unique_id]) for one in after)

    def costly(self, own: Mapping[str, Options], paying: Proposal) -> Proposal:
        """Propose the specs that would save most in addition to those that pay off, if writing them cost nothing."""
        fixed = {name: replace(own[name], specs=(spec,)) for name, spec in paying.specs.items()}
        free = {name: replace(one, subject=replace(one.subject, written=0.0)) for name, one in own.items()}
        found = self.proposal({**free, **fixed}, given=paying.specs)
        options = {**{name: own[name] for name in found.options}, **fixed}
        return replace(found, options=options, choices=choices_of(options, self.workload))


def _options(
    around: ProjectContext,
    tables: Mapping[str, AdvisedTable],
    workload: Workload,
    planner: Planner,
    on_progress: OnProgress,
) -> dict[str, Options]:
    """Return candidate specs for every table from which an operator could read buckets by its keys."""
    keys, orders, size = keys_of(workload), orders_of(workload.required), around.request.target_file_size
    known = dict(tables)
    if not around.request.check.offline:
        on_progress("collecting column statistics")
        for name in (name for name in keys if name in known):
            columns = tuple(dict.fromkeys(column for found in keys[name] for column in found))
            facts = subjects.column_facts(planner, known[name], columns, around.request.profile)
            known[name] = replace(known[name], facts=facts)
    beside = numbers_beside(known, workload.required, size)
    return {
        name: options_of(one, keys[name], sorted(beside.get(name, ())), size, orders.get(name, ()))
        for name, one in known.items()
        if name in keys
    }


def _explained(
    asked: str, by_table: Mapping[str, Node], proposal: Proposal, left_out: Sequence[RejectedTable]
) -> Candidates:
    names = [name for name, node in by_table.items() if asked.lower() in (name, node.name.lower(), node.unique_id)]
    if not names:
        near = get_close_matches(asked.lower(), [node.name for node in by_table.values()], 1, 0) or ["model"]
        raise ProjectError(
            f"The project has no table `{asked}`.",
            found=f"no model or source with this name among {len(by_table):,}",
            expected="the name of a model or source",
            instead=f"--explain {near[0]}",
        )
    return proposal.explained(names[0], left_out)
