"""Models of a real log in onnxruntime and PyTorch: 2,000 of Criteo's lines give the predictions of this program."""

import lzma
import os
import pathlib

import numpy
import pytest

import campanile
from conftest import needed

ROWS = 2000
MODELS = {
    "dlrm": {},
    "dcn": {"kind": "dcn"},
    "deepfm": {"kind": "deepfm"},
    "dmt-dlrm": {"towers": "strided:4", "tower_module": "dlrm:c=1,p=1,d=8"},
    "dmt-dcn": {"kind": "dcn", "towers": "strided:4", "tower_module": "dcn:d=8"},
}


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    """The first lines to train on, and fewer to score. CAMPANILE_DATA names the folder of the log."""
    beside = pathlib.Path(__file__).parents[3] / "shared" / "data"
    path = pathlib.Path(os.environ.get("CAMPANILE_DATA", beside)) / "criteo_kaggle_117k.tsv.xz"
    if not path.is_file():
        if "data" in os.environ.get("CAMPANILE_NO_SKIPS", "").split():
            pytest.fail(f"CAMPANILE_NO_SKIPS names data, but {path} is not there")
        pytest.skip(f"{path} is not there; name its folder with CAMPANILE_DATA")
    folder = tmp_path_factory.mktemp("criteo")
    with lzma.open(path, "rt") as log:
        text = [line for line, _ in zip(log, range(3 * ROWS))]
    (folder / "train.tsv").write_text("".join(text))
    (folder / "new.tsv").write_text("".join(text[:ROWS]))
    return str(folder / "train.tsv"), str(folder / "new.tsv")


@pytest.mark.parametrize("name", MODELS)
def test_real_lines(name, lines, tmp_path):
    torch = needed("torch")
    train, new = lines
    run = {
        "data": {"format": "criteo-tsv"},
        "model": {"preset": "kaggle", "rows_cap": 2000, **MODELS[name]},
        "train": {"batch": 256, "epochs": 2},
    }
    model = campanile.train(run, data=train)
    expected, rows = model.predict(new), model.rows(new)
    assert expected.shape == (ROWS,) and expected.std() > 1e-3
    with torch.no_grad():
        found = model.to_torch()({key: torch.from_numpy(array) for key, array in rows.items()}).numpy()
    assert numpy.abs(found - expected).max() < 1e-6
