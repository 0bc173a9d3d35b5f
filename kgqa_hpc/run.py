"""A run as a Python object: graph, anchors, steps and engine as settings objects, and the stages as methods.

    run = kgqa_hpc.Run("runs/mine", graph=kgqa_hpc.Csv(nodes="nodes.csv", edges="edges.csv"),
                       anchors=kgqa_hpc.Graphlets(per_shape=100), steps=["generate", "check", "judge"],
                       engine=kgqa_hpc.OpenAI(base_url="http://localhost:8000/v1", model="..."))
    run.preview(3)
    run.work().merge()
    run.dataset.to_pandas()

`Run("runs/mine")` alone opens a run that is there. The commands of `kgqa` call the same methods.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from kgqa_hpc import settings_objects, stages
from kgqa_hpc.config import RunConfig, parse_config, plain_config
from kgqa_hpc.dataset.accounting import Accounting
from kgqa_hpc.dataset.files import read_accounting, read_records
from kgqa_hpc.errors import InputError, StoreError
from kgqa_hpc.runs import add_pass, added_judges, change_dataset, open_run
from kgqa_hpc.runs.checks import accept_recorded, noting_refusal, require_ready, require_servers
from kgqa_hpc.settings_objects import plain
from kgqa_hpc.store.run_folder import RunFolder

if TYPE_CHECKING:
    import pandas as pd

    from kgqa_hpc.dataset.publish import Published

Which = Literal["accepted", "rejected", "lost"]


class Run:
    """A run. The first method that needs its folder creates it, or compares an existing folder with the configuration.

    `graph`: settings, a mapping, `(nodes, edges)` as pandas frames with the columns of CSV files, or a networkx graph.
    `engine`: settings, a mapping, or a function `(messages, schema, seed) -> str or dict`. Further sections of a
    configuration (`prompts`, `passes`, `dataset`, `runtime`, `target` ...) are keywords, as mappings.
    Raises ConfigError with every problem; InputError if no section is given and the run does not exist.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        graph: Any = None,
        anchors: Any = None,
        steps: Sequence[Any] | None = None,
        engine: Any = None,
        seed: int | None = None,
        **sections: Any,
    ) -> None:
        self.path = Path(folder)
        self._file: Path | None = None
        self._files: dict[str, bytes] = {}  # contents of files to write into RUN/inputs
        data = {key: value for key, value in {**sections, "seed": seed}.items() if value is not None}
        if graph is not None:
            data["graph"] = settings_objects.graph_section(graph, self._files)
        if anchors is not None:
            data["anchors"] = plain("anchors", anchors)
        if engine is not None:
            data["engine"] = settings_objects.engine_section(engine, self._files)
        if steps is not None:
            chain = steps if isinstance(steps, str) else [plain("step", step) for step in steps]
            data["passes"] = [{"name": "main", "steps": chain}]
        self._data, self._base = data or None, Path.cwd()
        if self._data is None:
            open_run(self.path)
        else:
            self._parsed()

    @classmethod
    def from_config(cls, config: str | Path | Mapping[str, Any], folder: str | Path) -> Self:
        """A run from a configuration file or an equivalent mapping. Raises ConfigError."""
        if isinstance(config, Mapping):
            return cls(folder, **dict(config))
        if Path(config).is_dir():
            cure = f"the configuration comes first, then the run folder: {folder} {config}"
            raise InputError(f"{config}: is a folder, not a configuration", cure)
        run = cls.__new__(cls)
        run.path, run._file, run._files = Path(folder), Path(config), {}
        with noting_refusal(run.path, str(config)):
            run._data, run._base = plain_config(run._file), run._file.resolve().parent
        return run

    def __repr__(self) -> str:
        return f"kgqa_hpc.Run({str(self.path)!r})"

    def _repr_html_(self) -> str:
        from html import escape

        from kgqa_hpc.status.render import render

        if not RunFolder(self.path).manifest_file.exists():
            return f"<code>{escape(repr(self))}</code>, not made yet"
        return f"<code>{escape(repr(self))}</code><pre>{escape(render(self.status))}</pre>"

    @property
    def config(self) -> RunConfig:
        """The checked configuration: the run folder's; before the folder exists, this object's."""
        return open_run(self.path)[1] if RunFolder(self.path).manifest_file.exists() else self._parsed()

    @property
    def status(self) -> dict[str, Any]:
        """The document of `kgqa status --json`. Raises InputError when there is no run."""
        return stages.standing(self.path)

    @property
    def dataset(self) -> "Dataset":
        """The merged dataset. Raises InputError when there is no run."""
        return Dataset(RunFolder.open(self.path))

    def preview(self, number: int = 3) -> "Preview":
        """Process a few items with all steps, without creating a run; displayed as a table in a notebook."""
        from kgqa_hpc.trials.preview import preview

        with tempfile.TemporaryDirectory(prefix="kgqa-inputs-") as scratch:
            config = self.config if self._data is None else self._parsed(Path(scratch))
            return Preview(preview(config, number))

    def create(self, *, accept_code: bool = False) -> RunFolder:
        """Check the configuration and the files it names; create the run folder, or compare it if it exists.

        With `accept_code`, an existing run accepts changed code of its entries.

        Raises ConfigError, PromptError, FingerprintMismatch.
        """
        if self._data is None:
            return RunFolder.open(self.path)
        if self._file is not None:
            return stages.init(self._file, self.path, accept_code=accept_code)
        with (
            noting_refusal(self.path, "kgqa_hpc.Run"),
            tempfile.TemporaryDirectory(prefix="kgqa-inputs-") as scratch,
        ):
            require_ready(self._parsed(Path(scratch)), "Run")
            run = stages.create(self._parsed(), self.path, accept_code=accept_code)
        accept_recorded(run)
        settings_objects.place_files(self._files, run)
        return run

    def work(self, threads: int | None = None) -> Self:
        """Import the graph, sample, and process every item; a repeated call resumes."""
        self.create()
        until = [stage.gpus for stage in stages.STAGES].index(True) + 1
        stages.work_through(stages.STAGES[:until], self.path, threads)
        return self

    def all(self, threads: int | None = None) -> Self:
        """Run all stages, from the graph to the report; a repeated call resumes."""
        self.create()
        stages.work_through(stages.STAGES, self.path, threads)
        return self

    def merge(
        self,
        *,
        partial: bool = False,
        published: bool = False,
        dask: str | None = None,
        shared: bool = False,
        as_recorded: bool = False,
        **changes: Any,
    ) -> Accounting | None:
        """Apply `changes` to `dataset:` keys ({"split.by": "nodes"}), then assemble the dataset; return its accounting.

        With `shared`, several processes take part; None except in the process that wrote the dataset.
        If the run refused its last configuration, changes or `as_recorded` are required.
        Raises InputError for a change that is invalid or does not fit the records; then nothing is changed or merged.
        """
        before = self.config.plain()["dataset"] if changes else {}
        requested = change_dataset(self.path, changes) if changes else self.config
        if changes or as_recorded:
            accept_recorded(RunFolder.open(self.path))
        try:
            counts = stages.merge(self.path, partial=partial, published=published, dask=dask, shared=shared)
        except InputError:
            if changes:
                change_dataset(self.path, before)
            raise
        if self.config.dataset != requested.dataset:
            dataset = self.path / "dataset"
            raise StoreError(
                f"{self.path}: another merge has changed dataset: meanwhile; {dataset} follows its settings",
                "merge again with yours when it has ended",
            )
        return counts

    def judge(
        self, prompt: str | Path, *, engine: Any = None, name: str | None = None, trust: bool = False
    ) -> Self:
        """Add a judge to the run, by the name of its prompt or a file NAME.md, and ask it. Call merge afterwards."""
        from kgqa_hpc.work.run import run_command

        file = Path(prompt) if str(prompt).endswith(".md") else None
        if file is not None and not file.is_file():
            raise InputError(f"{file}: no such prompt", "name a prompt of prompts/, or a file NAME.md")
        stem = file.stem if file else str(prompt)
        label = name or stem
        settings: dict[str, Any] = {"name": label, "steps": [{"use": "judge", "prompt": stem, "as": label}]}
        if engine is not None:
            files: dict[str, bytes] = {}
            section = settings_objects.engine_section(engine, files)
            inputs = self.path.resolve() / settings_objects.FOLDER
            settings["engine"] = settings_objects.with_folder(section, inputs)
            settings_objects.place_files(files, RunFolder.open(self.path))
            require_servers([self.config.changed("the new judge", engine=settings["engine"]).engine])
        add_pass(self.path, settings, file, trust=trust)
        run_command(self.path, trust=trust)
        return self

    def extend(self, size: int, threads: int | None = None, *, trust: bool = False) -> Self:
        """Draw a larger sample that contains the present one; answers are kept. Call work and merge afterwards."""
        from kgqa_hpc.runs.sampling import extend

        extend(self.path, size, threads, trust=trust)
        return self

    def report(self, *, all_records: bool = False) -> Path:
        """Write report/index.html, with a sample of the records or all, and return its path."""
        return stages.report(self.path, all_records=all_records)

    def publish(self, folder: str | Path, to: Sequence[str] = ()) -> "Published":
        """Write a folder ready for upload; the result lists missing metadata. Nothing is uploaded."""
        from kgqa_hpc.dataset.publish import publish

        return publish(RunFolder.open(self.path), Path(folder), list(to))

    def explain(self, item: str) -> dict[str, Any]:
        """The document of `kgqa explain --json`."""
        from kgqa_hpc.dataset.explain import explain

        return explain(self.path, item)

    def _parsed(self, scratch: Path | None = None) -> RunConfig:
        """The checked configuration; its files are written into `scratch`, or are those of RUN/inputs."""
        inputs = scratch or self.path.resolve() / settings_objects.FOLDER
        for name, content in self._files.items():
            if inputs == scratch:
                (inputs / name).write_bytes(content)
        data = settings_objects.with_folder(self._data, inputs)
        origin = "Run" if self._file is None else str(self._file)
        return parse_config(data, origin, self._base, added_judges(self.path))


class Dataset:
    """The dataset of a merged run."""

    def __init__(self, run: RunFolder) -> None:
        self._run = run

    def __repr__(self) -> str:
        return f"Dataset({str(self._run.dataset)!r})"

    @property
    def accounting(self) -> dict[str, Any]:
        """dataset/accounting.json. Raises InputError before the first merge."""
        return read_accounting(self._run)

    def records(self, which: Which = "accepted") -> Iterator[dict[str, Any]]:
        """The records as in the JSON lines, streamed. Raises InputError before the first merge."""
        read_accounting(self._run)  # raises InputError without a dataset
        yield from read_records(self._run.dataset, which)

    def to_pandas(self, which: Which = "accepted") -> "pd.DataFrame":
        """The records as a DataFrame, one row each. Raises InputError before the first merge."""
        import pandas as pd

        return pd.DataFrame(self.records(which))

    def _repr_html_(self) -> str:
        import pandas as pd

        from kgqa_hpc.status.snapshot import accepted_at_merge

        head = pd.DataFrame(islice(self.records(), 10), columns=["question", "answer", "group", "id"])
        return f"{accepted_at_merge(self._run):,} accepted records{head.to_html(index=False)}"


class Preview(dict[str, Any]):
    """The document of `kgqa preview --json`; text in a terminal, a table in a notebook."""

    def __str__(self) -> str:
        from kgqa_hpc.trials.preview import lines

        return "\n".join(lines(self))

    def to_pandas(self) -> "pd.DataFrame":
        """A DataFrame with one row per item: group, status, reason, and the fields of its record."""
        import pandas as pd

        keys = ("id", "group", "status", "reason", "seconds")
        rows = [{**{key: item[key] for key in keys}, **item["output"]} for item in self["items"]]
        return pd.DataFrame(rows)

    def _repr_html_(self) -> str:
        return str(self.to_pandas().to_html(index=False))
