"""Every notebook runs from top to bottom, and is checked in with outputs that speak of the project alone."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from simulator.capture import convert
from tests.replay.logs import EXAMPLES, example_records, write_log

nbformat = pytest.importorskip("nbformat")

ROOT = Path(__file__).parent.parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
BYTES_MAX = 500_000
# Folders of a machine, at the start of a path; the paths in URLs are none.
MACHINE_PATH = re.compile(r"(?<![\w:/.])/(?:home|Users|root|work|tmp|var|opt|usr|mnt|private)/|[A-Z]:\\\\")

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path: Path):
    return nbformat.read(path, as_version=4)


def code_cells(notebook) -> list:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


@each_notebook
def test_is_checked_in_as_one_run_left_it(path: Path) -> None:
    cells = code_cells(read(path))
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert sum(output.output_type in ("execute_result", "display_data") for output in outputs) >= 3
    assert [output for output in outputs if output.output_type == "error"] == []
    assert [output.text for output in outputs if output.get("name") == "stderr"] == []


@each_notebook
def test_says_nothing_of_the_machine_or_the_run(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert MACHINE_PATH.findall(text) == []
    assert "iopub" not in text, "execution times: see notebooks in docs/README.md"
    assert len(text) < BYTES_MAX


@each_notebook
def test_pictures_show_without_scripts(path: Path) -> None:
    shown = [
        output.data
        for cell in code_cells(read(path))
        for output in cell.outputs
        if "application/vnd.plotly.v1+json" in output.get("data", {})
    ]
    assert shown
    for forms in shown:
        assert forms["image/svg+xml"].startswith("<svg")
        assert "<script" not in json.dumps(forms)


@each_notebook
def test_finds_the_repository_from_its_root_too(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = re.findall(r"^ROOT = .*$", code_cells(read(path))[0].source, re.MULTILINE)
    for folder in (ROOT, path.parent):
        monkeypatch.chdir(folder)
        names = {"Path": Path}
        exec(line, names)
        assert names["ROOT"] == ROOT


@pytest.mark.spark
@pytest.mark.slow
@each_notebook
def test_runs_and_gives_what_is_checked_in(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Executed in memory, beside the files it uses; the checked-in notebook stays as it is."""
    before = path.read_bytes()
    notebook = executed(path, monkeypatch)
    for was, now in zip(code_cells(read(path)), code_cells(notebook), strict=True):
        assert plain_outputs(now) == plain_outputs(was)
    assert path.read_bytes() == before


def two_hosts(folder: Path) -> tuple[Path, Path]:
    """A capture in Parquet with rows of a second virtual host, which the definitions are not of."""
    records = example_records("4.3")[:400]
    own_and_other = [{**record, "vhost": vhost} for record in records for vhost in (record["vhost"], "elsewhere")]
    convert([write_log(folder / "trace.log", own_and_other)], folder / "log.parquet")
    return folder / "log.parquet", EXAMPLES / "captured-4.3" / "definitions.json"


def nothing_delivered(_: Path) -> tuple[Path, Path]:
    """The log of a recording in which all messages are held for ever, or are behind such."""
    held = ROOT / "tests" / "replay" / "held"
    return held / "trace.jsonl", held / "definitions.json"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "pictures", "told"),
    [
        (two_hosts, 2, ["400 rows of virtual host 'elsewhere' are left out", "Every delivery is as predicted"]),
        (
            nothing_delivered,
            0,
            [
                "33 messages are held in the queues where they died",
                "Deliveries by queue: nothing to draw: no delivery in this log",
                "Deaths by queue and reason: nothing to draw: no delivery of this log shows a death",
                "exchange 'deliver' routes key '0.gone' to no queue",
                "The log has no delivery to compare.",
            ],
        ),
    ],
    ids=["two virtual hosts", "no deliveries"],
)
def test_any_log_has_words_and_pictures(
    given: Callable[[Path], tuple[Path, Path]],
    pictures: int,
    told: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, path in zip(("LOG", "DEFINITIONS"), given(tmp_path), strict=True):
        monkeypatch.setenv(name, str(path))
    cells = code_cells(executed(ROOT / "notebooks" / "any-log.ipynb", monkeypatch))
    assert sum("image/svg+xml" in output.get("data", {}) for cell in cells for output in cell.outputs) == pictures
    everything = "\n".join(text for cell in cells for text in plain_outputs(cell))
    assert [each for each in told if each not in everything] == []


def executed(path: Path, monkeypatch: pytest.MonkeyPatch):
    """The notebook as it runs in this Python. Raises for a cell that fails."""
    nbclient = pytest.importorskip("nbclient")
    monkeypatch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    notebook = read(path)
    client = nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}
    )
    client.create_kernel_manager()
    client.km.kernel_spec.argv[0] = sys.executable
    client.execute()
    return notebook


def plain_outputs(cell) -> list[str]:
    """The outputs of a cell as text."""
    return [output.get("text") or output.data["text/plain"] for output in cell.outputs]
