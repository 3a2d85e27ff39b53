"""The notebooks run, their outputs hold the numbers that their text names, and their pages work for every reader."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import filelock
import nbformat
import pytest
from nbformat import NotebookNode

from docs.building import notebooks, words

PATHS = {path.stem: path for path in notebooks.sources()}
NAMES = tuple(PATHS)


@pytest.fixture(scope="session")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], NotebookNode]:
    """Returns a notebook by name with its outputs; each is executed once per run of the suite."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "notebooks"
    folder.mkdir(exist_ok=True)

    def read(name: str) -> NotebookNode:
        record = folder / f"{name}.ipynb"
        with filelock.FileLock(f"{record}.lock"):
            if not record.is_file():
                shutil.rmtree(folder / name, ignore_errors=True)  # of an execution that failed
                nbformat.write(notebooks.execute(PATHS[name], folder / name), record)
        return nbformat.read(record, as_version=4)

    return read


def output(notebook: NotebookNode, code: str) -> str:
    """Returns the text of the outputs of the one cell that contains ``code``."""
    (cell,) = [cell for cell in notebook.cells if cell.cell_type == "code" and code in cell.source]
    return "\n".join(
        one.text if one.output_type == "stream" else one.data.get("text/plain", "") for one in cell.outputs
    )


def value(text: str, name: str) -> float:
    """Returns the number behind a name at the beginning of a line."""
    found = re.search(rf"^ *{re.escape(name)} +≈? ?([−\d.]+)", text, re.MULTILINE)
    assert found is not None, f"{name} in {text}"
    return float(found[1].replace("−", "-"))


# --- as they are committed --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_notebooks_are_committed_without_outputs_and_settings_of_editors(name: str) -> None:
    notebook = notebooks.read(PATHS[name])
    assert nbformat.writes(notebook) == nbformat.writes(notebooks.cleared(notebook))
    assert notebook.cells[0].source.startswith("# ")


@pytest.mark.parametrize("name", NAMES)
def test_notebooks_keep_to_the_words_and_the_width_of_the_documentation(name: str) -> None:
    notebook = notebooks.read(PATHS[name])
    text = "\n\n".join(cell.source for cell in notebook.cells)
    assert [place for phrase in words.PHRASES for place in phrase.places(text)] == []
    lines = [line for cell in notebook.cells if cell.cell_type == "code" for line in cell.source.splitlines()]
    assert [line for line in lines if len(line) > 88] == []


# --- executed ---------------------------------------------------------------------------------------------------------


@pytest.mark.timeout(300)
def test_the_first_evaluation(executed) -> None:
    notebook = executed("first_evaluation")
    printed = output(notebook, "print(result)")
    assert "follow, inference on quadruped_locomotion/synthetic_trot_v1: 1 run" in printed
    assert value(printed, "Return") == 236.7
    assert value(printed, "Worst 5 %") == 20.81
    assert value(printed, "Score") > 1
    assert re.search(r"^  Bundle  +runs/follow-\w{8}/synthetic_trot_v1/seed_0/inference$", printed, re.MULTILINE)
    episodes = output(notebook, "result.episodes()")
    assert episodes.count("time_limit") == 3
    assert episodes.count("fall") == 1
    assert "(True, True)" in output(notebook, "again == result")
    assert "manifest.json" in output(notebook, "result.bundle.rglob")
    assert "the action is an array of shape (3,)" in output(notebook, "def one_leg")
    assert "infer_once (bad_output)" in output(notebook, "failed  # a result")
    assert "did you mean 'synthetic_trot_v1'?" in output(notebook, '"syntetic_trot"')


@pytest.mark.timeout(300)
def test_comparing_two_algorithms(executed) -> None:
    notebook = executed("comparing_two_algorithms")
    assert output(notebook, "recorded.where").startswith("9 runs")
    judged = output(notebook, "comparison = a2perf.compare")
    assert re.search(r"^ariane +not separated +−0\.089 +\[−0\.184, \+0\.006\] .* INCONCLUSIVE ", judged, re.MULTILINE)
    assert re.search(r"^ariane +not separated +\+0\.0048 +\[−0\.0219, \+0\.0315\] .* INCONCL", judged, re.MULTILINE)
    assert "a PASS needs 17" in output(notebook, 'table["reason"]')
    energy = output(notebook, 'metric="energy_gross"')
    assert re.search(r"^ariane +worse +−20\.4 mWh .*≈ 21\.9 mWh +≈ 1\.5 mWh", energy, re.MULTILINE)
    written = output(notebook, "comparison.write").split()
    assert {"comparison.json", "comparison.html", "comparison.pdf"} <= set(written)


@pytest.mark.timeout(300)
def test_figure_and_table_for_a_paper(executed) -> None:
    notebook = executed("figure_and_table_for_a_paper")
    assert "15 runs" in output(notebook, "print(runs)")
    assert re.search(r"^1 +97 +8\.0 +14\.80$", output(notebook, "curves.groupby"), re.MULTILINE)
    assert "report/tables/quadruped-locomotion-dog-pace.tex" in output(notebook, "sorted(Path(")
    latex = output(notebook, "to_latex")
    assert r"PPO & 0.06 [0.04, 0.07] & 21.80 [16.06, 29.26] & 11.06 [2.14, 17.93] \\" in latex
    assert r"\caption{Dog, pace: means of three seeds with 95 \% intervals.}" in latex


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", NAMES)
def test_pages_show_pictures_with_a_text_and_no_path_of_this_machine(executed, tmp_path: Path, name: str) -> None:
    text = notebooks.page(executed(name), name, tmp_path)
    pictures = re.findall(r"^```\{image\} (\S+)\n:alt: (.+)$", text, re.MULTILINE)
    assert {picture for picture, _ in pictures} == {path.name for path in tmp_path.iterdir()}
    assert len(pictures) >= 1
    assert min(len(alt.split()) for _, alt in pictures) >= 8
    assert re.findall(r".*(?:/tmp/|/home/|/root/|site-packages|Traceback).*", text) == []
