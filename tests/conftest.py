"""For all tests: random tests are repeatable and have no deadline: a loaded machine is not a defect."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.picture import draw_once

if TYPE_CHECKING:
    from tests.work.rig import Nursery, Processes

settings.register_profile(
    "kgqa", deadline=None, print_blob=True, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("kgqa")
# Tests run side by side, and spinning threads of a model take the cores.
os.environ.setdefault("GOMP_SPINCOUNT", "0")


ROOT = Path(__file__).parents[1]
# The plugins behind an anchor kind or a shipped configuration, where a test has it as a parameter.
PLUGIN_OF = {
    **dict.fromkeys(["context", "puzzle"], "reasoning"),
    **dict.fromkeys(["script", "plan"], "gasl"),
    **dict.fromkeys(["ground", "literature", "rephrase_medqa", "rephrase_pubmedqa"], "literature"),
    **dict.fromkeys(["demo_medqa", "demo_pubmedqa", "abstract"], "literature"),
    **dict.fromkeys(["judge_predictions", "study"], "evaluation"),
    "literature_clean": "literature evaluation",
    "openai_batch": "batch_api",
}
# Left out by a quick check (CONTRIBUTING.md), beside what is marked in the files: beginnings of ids of tests.
SLOW = """
chaos/ dataset/exports/test_formats.py::test_the_task_for_lm_eval dataset/test_card.py::test_mlcroissant_finds
dataset/test_damage.py::test_damage_is_told dataset/test_duplicates.py::test_the_search_holds
dataset/test_filters.py::test_the_distribution_is dataset/test_damage.py::test_a_full_disk
dataset/test_damage.py::test_a_merge_that_was_overtaken dataset/test_merge_tool.py
dataset/test_parts.py::test_parts_have_the_records dataset/test_redo.py::test_a_merge_with_other_settings
dataset/test_redo.py::test_other_steps dataset/test_shared_merge.py
engines/openai/test_engine.py::test_a_body_that_trickles engines/openai/test_engine.py::test_every_request
engines/openai/test_runs.py engines/test_grammar.py::test_every_string families/test_docs_families.py
families/test_evidence.py::test_the_metapaths_of_the_bundled_graph families/test_queries.py::test_the_queries
families/test_runs.py::test_200_items faults/ foreign/test_examples.py foreign/test_foreign_files.py
foreign/test_hostile_names.py::test_every_verb foreign/test_server.py::test_absurd foreign/test_terminal.py
graphlets/test_graph_tool.py graphlets/test_sample.py::test_every_occurrence
graphlets/test_sample_by_draws.py::test_estimates_miss kg/sources/test_hpo.py::test_node_for_node
plugins/batch_api/test_engine.py::test_a_kill plugins/batch_api/test_engine.py::test_a_run_killed
plugins/evaluation/test_human_page.py::test_not_qualified plugins/evaluation/test_perturb.py
 plugins/evaluation/test_ratings.py::test_figures
plugins/evaluation/test_statistics.py::test_intervals_cover
plugins/evaluation/test_study.py::test_a_study_extended plugins/evaluation/test_study.py::test_every_planted
plugins/evaluation/test_study_variants.py::test_a_study_of_models
plugins/evaluation/test_study_variants.py::test_anchor_kinds_have
plugins/evaluation/test_study_variants.py::test_models_are_compared
plugins/gasl/test_parser.py::test_a_script_of_a_model plugins/gasl/test_plan.py::test_every_answer
plugins/gasl/test_plan.py::test_no_script plugins/gasl/test_state.py::test_a_killed_script

plugins/literature/test_proteins.py::test_real_entries
plugins/reasoning/test_puzzles.py::test_every_conclusion_of_300 report/test_browser.py
report/test_graphs.py::test_a_count_larger_than_the_memory report/test_graphs.py::test_another_process_draws
steps/test_contract.py::test_explain_and_show store/test_faults.py test_cli.py::test_a_run_goes_from
test_cli.py::test_all_in_one test_cli.py::test_quiet_leaves test_docs.py::test_each_cell
test_docs.py::test_each_command_of test_docs.py::test_the_python_examples test_extending.py
test_first_hour.py::test_a_certificate test_first_hour.py::test_a_wrong_address
test_first_hour.py::test_the_words_of test_grow.py::test_a_growth_stopped test_grow.py::test_a_larger_sample
test_grow.py::test_an_extension_holds test_grow.py::test_extend_judge test_grow.py::test_status_list
test_grow.py::test_the_rule_of test_jit.py test_mistakes.py::test_the_files_that_init
test_plugin_files.py::test_an_edited_file test_rehearsal.py test_run.py::test_frames
test_run.py::test_the_own_configuration test_target.py::test_a_budget test_target.py::test_a_graph_without
test_target.py::test_a_growth_that_was_killed test_target.py::test_a_worker_that_slept
test_target.py::test_each_group_has test_target.py::test_the_dataset_has test_trust.py::test_no_verb_runs
tools/test_benchmarks.py work/test_kill.py work/test_run.py::test_a_time_limit
work/test_spending.py::test_a_run_stops_with_75 work/test_stop_in_step.py
"""


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark slow tests, and skip a test that uses a plugin which is not there (tests/test_walls.py takes one away)."""
    from kgqa_hpc.registry import shipped_plugins

    slow = tuple(SLOW.split())
    for item in items:
        if item.nodeid.removeprefix("tests/").startswith(slow):
            item.add_marker(pytest.mark.slow)
        parameters = getattr(item, "callspec", None)
        values = parameters.params.values() if parameters else ()
        names = {
            value.stem if isinstance(value, Path) else value
            for value in values
            if isinstance(value, str | Path)
        }
        needed = {plugin for name in names & PLUGIN_OF.keys() for plugin in PLUGIN_OF[name].split()}
        needed.update(*(mark.args for mark in item.iter_markers("plugin")))
        if missing := needed - shipped_plugins().keys():
            item.add_marker(pytest.mark.skip(reason=f"needs the plugin {', '.join(sorted(missing))}"))


@pytest.fixture(autouse=True)
def registries_as_before() -> Iterator[None]:
    """Take back what a test registered: a new registry enters itself, the entries of a plugin file stay.

    And draw one picture of a sample in each process (tests/picture.py).
    """
    from kgqa_hpc.registry import FILE_ENTRIES, REGISTRIES

    draw_once()
    registries, entries = dict(REGISTRIES), {group: dict(names) for group, names in FILE_ENTRIES.items()}
    yield
    REGISTRIES.update(registries)
    FILE_ENTRIES.clear()
    FILE_ENTRIES.update(entries)


# Their tests sample graphs, most of them in processes of their own.
SAMPLING_ROOMS = "anchors cluster dataset families faults golden graphlets report steps tools work"


def pytest_collection_finish(session: pytest.Session) -> None:
    """Compile the kernels before the first test, once for these sources, in one of the processes that test.

    Else each of the processes that tests start side by side compiles them, and takes a minute instead of two
    seconds.
    """
    rooms = {item.path.relative_to(ROOT / "tests").parts[0] for item in session.items}
    if (
        session.config.option.collectonly
        or not rooms & set(SAMPLING_ROOMS.split())
        or not importlib.util.find_spec("numba")
    ):
        return
    beside = ROOT / "kgqa_hpc" / "__pycache__"  # where the compiled ones lie, so that one goes with the other
    beside.mkdir(exist_ok=True)
    with (beside / "kernels-compiled-for-tests").open("a+") as note:
        fcntl.flock(note, fcntl.LOCK_EX)
        note.seek(0)
        if note.read() != (digest := digest_of_kernels()):
            command = [sys.executable, "-m", "kgqa_hpc.compile_kernels"]
            subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=600)
            note.truncate(0)
            note.write(digest)


def digest_of_kernels() -> str:
    own = ("jit", "compile_kernels", "anchors/routes", "anchors/simple_paths")
    sources = [ROOT / "kgqa_hpc" / f"{name}.py" for name in own]
    sources += sorted((ROOT / "kgqa_hpc" / "graphlets").rglob("*.py"))
    return hashlib.sha256(
        b"".join([sys.version.encode(), *(path.read_bytes() for path in sources)])
    ).hexdigest()


@pytest.fixture
def set_aside(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """set_aside(path): another process takes the file away between our look at the folder and our reading."""

    def arrange(path: Path) -> None:
        from kgqa_hpc.store import canonical

        read = canonical.read_sized

        def read_too_late(where: Path, limit: int = -1) -> tuple[bytes, int]:
            if where == path:
                path.unlink()
                monkeypatch.setattr(canonical, "read_sized", read)
            return read(where, limit)

        monkeypatch.setattr(canonical, "read_sized", read_too_late)

    return arrange


@pytest.fixture
def processes() -> Iterator[Processes]:
    """`kgqa run` processes, started as a user does."""
    from tests.work.rig import Processes  # not above: see set_aside

    started = Processes()
    yield started
    started.end()


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    """`kgqa run` processes, forked: for tests that need hundreds."""
    from tests.work.rig import Nursery

    started = Nursery(tmp_path / "output.log")
    yield started
    started.end()
