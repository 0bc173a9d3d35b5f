"""Variables, fields and arguments say what they hold: nouns of the field instead of `found`, `each`, `place`."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "kgqa_hpc"

WORDS = """
one each found told known here own left wanted made way place places said some rest other others first what where
how shown given kept taken met wish
"""
VAGUE = frozenset(WORDS.split())

# Names that something else gives: keys of the configuration (`anchors.first`, `anchors.where`), clauses of GASL,
# the member of an error, the first of two samples in statistics, the option `--where`.
GIVEN = {
    "anchors/hub.py": {"first"},
    "anchors/records.py": {"where"},
    "cli/dataset.py": {"where"},
    "config/run_config.py": {"where"},
    "dataset/accounting.py": {"other"},
    "dataset/combine.py": {"where"},
    "dataset/files.py": {"where"},
    "dataset/publish.py": {"where"},
    "dataset/show.py": {"where"},
    "errors.py": {"place"},
    "plugins/evaluation/agreement.py": {"first"},
    "plugins/evaluation/cli.py": {"where"},
    "plugins/evaluation/human_sample.py": {"where"},
    "plugins/evaluation/judges.py": {"first"},
    "plugins/evaluation/ratings.py": {"where"},
    "plugins/evaluation/records.py": {"where"},
    "plugins/evaluation/retest.py": {"first", "where"},
    "plugins/evaluation/study.py": {"first", "other"},
    "plugins/gasl/language.py": {"place"},
    "plugins/literature/document.py": {"others"},
    "plugins/literature/names.py": {"kept"},
    "prompts/template_language.py": {"left"},
    "registry.py": {"what"},
    "steps/pair.py": {"way"},
}


def _vague_names(path: Path) -> list[str]:
    """Each vague name that a file gives to a variable, a field or an argument, with its line."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = [(node.arg, node.lineno) for node in nodes if isinstance(node, ast.arg)]
    names += [(n.id, n.lineno) for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    file = path.relative_to(PACKAGE).as_posix()
    refused = VAGUE - GIVEN.get(file, set())
    return [f"{file}:{line} {name}" for name, line in names if name in refused]


def test_names_say_what_they_hold() -> None:
    vague = [name for path in sorted(PACKAGE.rglob("*.py")) for name in _vague_names(path)]
    assert vague == []
