"""The Python of docs/guide/python.md runs, block by block; the notebook is the same and runs as well."""

import json
import pathlib
import re

import pytest

from conftest import needed

ROOT = pathlib.Path(__file__).parents[2]


def blocks():
    """Python of the guide: what a block needs, and its text."""
    page = (ROOT / "docs/guide/python.md").read_text()
    return re.findall(r"```python(?: needs (\w+))?\n(.*?)```", page, flags=re.S)


def test_the_guide_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    known = {}
    ran = 0
    for needs, text in blocks():
        if needs:
            try:
                __import__(needs)
            except ImportError:
                continue
        exec(compile(text, "docs/guide/python.md", "exec"), known)
        ran += 1
    assert ran >= 5
    said = capsys.readouterr().out
    assert "Model(dlrm" in said and "bach" in said


def test_the_notebook_is_the_guide_and_runs(tmp_path, monkeypatch):
    nbformat, nbclient = needed("nbformat"), needed("nbclient")
    needed("ipykernel")
    notebook = nbformat.read(ROOT / "examples/python.ipynb", as_version=4)
    code = [cell.source.strip() for cell in notebook.cells if cell.cell_type == "code"]
    assert code == [text.strip() for needs, text in blocks() if not needs], "examples/python.ipynb differs from the guide"
    monkeypatch.chdir(tmp_path)
    done = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    said = json.dumps(done.cells)
    assert "Model(dlrm" in said
    assert not any(output.get("output_type") == "error" for cell in done.cells for output in cell.get("outputs", []))
