"""What a trained model can do, and that the command line, ONNX and PyTorch say the same of the same rows."""

import csv as csv_module
import os

import numpy
import pytest

import campanile
from conftest import MULTI_HOT, columns, config, flat, needed

MODELS = {
    "dlrm": {},
    "dcn": {"kind": "dcn", "cross_layers": 2, "cross_rank": 4},
    "deepfm": {"kind": "deepfm", "deep": [16, 1], "bottom": None, "top": None},
    "dmt-dlrm": {"towers": "strided:2", "tower_module": "dlrm:c=1,p=1,d=4", "bottom": [16, 4]},
    "dmt-dcn": {"kind": "dcn", "cross_layers": 1, "towers": "strided:2", "tower_module": "dcn:d=4"},
    "int8": {"tables": {"format": "int8"}},
    "tensor-trains": {"tt_rank": 4},
    "tensor-trains-deepfm": {"tt_rank": 4, "kind": "deepfm", "deep": [16, 1], "bottom": None, "top": None},
}


def described(name):
    return {key: value for key, value in MODELS[name].items() if value is not None}, [k for k, v in MODELS[name].items() if v is None]


def trained(name, data, schema=MULTI_HOT):
    model, without = described(name)
    rank, tables = model.pop("tt_rank", None), model.pop("tables", None)
    run = config(schema, **model)
    if tables is not None:
        run["tables"] = tables
    if rank is not None:
        run["tables"] = {"tt_rank": rank, "tt_rows": 100}
    for key in without:
        run["model"].pop(key)
    return campanile.train(run, data=data)


def scored(name, shop):
    """A model, what it predicts for 2,000 rows, and these rows as its inputs."""
    model = trained(name, shop)
    new = columns(2000, seed=9)
    expected = model.predict(new)
    assert expected.shape == (2000,) and expected.std() > 1e-3
    return model, expected, model.rows(new)


@pytest.mark.parametrize("name", MODELS)
def test_onnxruntime_gives_the_predictions(name, shop, tmp_path):
    runtime = needed("onnxruntime")
    model, expected, rows = scored(name, shop)
    files = model.to_onnx(tmp_path / "model.onnx")
    session = runtime.InferenceSession(files[0], providers=["CPUExecutionProvider"])
    (found,) = session.run(None, rows)
    assert abs(found - expected).max() < 1e-6


@pytest.mark.parametrize("name", MODELS)
def test_torch_gives_the_predictions(name, shop):
    torch = needed("torch")
    model, expected, rows = scored(name, shop)
    network = model.to_torch()
    with torch.no_grad():
        found = network({key: torch.from_numpy(array) for key, array in rows.items()}).numpy()
    assert abs(found - expected).max() < 1e-6
    assert isinstance(network, torch.nn.Module) and any(parameter.requires_grad for parameter in network.parameters())


def test_one_file_through_the_command_line_python_and_onnx(csv, command_line, tmp_path):
    run = config()
    model = campanile.train(run, data=csv, out=tmp_path / "run")
    command_line("predict", "--checkpoint", tmp_path / "run", "--data", csv, "--out", tmp_path / "scores.csv")
    with open(tmp_path / "scores.csv") as scores:
        told = numpy.array([float(row["probability"]) for row in csv_module.DictReader(scores)], dtype=numpy.float32)
    assert (model.predict(csv) == told).all()
    command_line("data", "rows", "--checkpoint", tmp_path / "run", "--data", csv, "--out", tmp_path / "rows.npz")
    rows, archive = model.rows(csv), dict(numpy.load(tmp_path / "rows.npz"))
    assert rows.keys() == archive.keys() and all((rows[name] == archive[name]).all() for name in rows)
    assert archive["rows.user"].dtype == numpy.int64 and archive["dense"].dtype == numpy.float32
    session = needed("onnxruntime").InferenceSession(model.to_onnx(tmp_path / "model.onnx")[0])
    assert abs(session.run(None, archive)[0] - told).max() < 1e-6


def test_a_model_of_files_scores_tables(shop, csv):
    run = config()
    model = campanile.train(run, data=csv)
    assert (model.predict(flat(shop)) == model.predict(csv)).all()
    assert model.evaluate(flat(shop)).auc == model.evaluate(csv).auc


def test_save_load_and_the_command_line(shop, command_line, tmp_path):
    model = campanile.train(config(), data=flat(shop))
    temporary = model.folder
    saved = model.save(tmp_path / "kept")
    with pytest.raises(campanile.CampanileError, match="exists already"):
        model.save(tmp_path / "kept")
    expected = model.predict(flat(shop))
    del model
    assert not os.path.exists(temporary), "a temporary run goes with its model"
    loaded = campanile.load(tmp_path / "kept")
    assert (loaded.predict(flat(shop)) == expected).all()
    assert (saved.step, saved.features, saved.kind) == (loaded.step, ["user", "brand", "hour"], "dlrm")
    inspected = command_line("checkpoint", "inspect", tmp_path / "kept")
    assert inspected["parameters_sha256"] == loaded.parameters_sha256
    with pytest.raises(campanile.CampanileError, match="nowhere"):
        campanile.load(tmp_path / "nowhere")


def test_embeddings(shop, tmp_path):
    model = campanile.train(config(), data=flat(shop))
    assert model.embedding("user").shape == (300, 8) and model.embedding("user").dtype == numpy.float32
    with pytest.raises(campanile.CampanileError, match="no table of colour; its features are user, brand, hour"):
        model.embedding("colour")
    assert model.write_embedding("brand", tmp_path / "brands.csv")
    with open(tmp_path / "brands.csv") as brands:
        ids = [row["id"] for row in csv_module.DictReader(brands)]
    assert "b3" in ids


def test_rows_of_a_tensor_train(shop, tmp_path):
    run = config()
    run["tables"] = {"tt_rank": 4, "tt_rows": 300}
    model = campanile.train(run, data=flat(shop))
    rows = model.embedding("user")
    assert rows.shape == (300, 8) and rows.std() > 1e-3
    model.write_embedding("user", tmp_path / "users.csv")
    with open(tmp_path / "users.csv") as users:
        written = [[float(value) for value in row[-8:]] for row in list(csv_module.reader(users))[1:]]
    assert abs(rows - numpy.array(written)).max() < 1e-6


def test_bad_rows_have_no_probability(shop):
    model = campanile.train(config(), data=flat(shop))
    price = numpy.array(shop["price"])
    price[[2, 5]] = numpy.inf
    with pytest.warns(UserWarning, match="(?s)2 row.*the table, row 2, column price"):
        probabilities = model.predict({**flat(shop), "price": price})
    assert numpy.isnan(probabilities).nonzero()[0].tolist() == [2, 5]
    with pytest.raises(campanile.CampanileError, match="the table, row 2, column price"):
        model.rows({**flat(shop), "price": price})


def test_predictions_need_no_label(shop):
    model = campanile.train(config(), data=flat(shop))
    without = {name: values for name, values in flat(shop).items() if name != "click"}
    assert (model.predict(without) == model.predict(flat(shop))).all()


def test_metrics_have_attributes_and_a_table(shop):
    model = campanile.train(config(), data=flat(shop))
    metrics = model.evaluate(flat(shop), slices=["hour"])
    assert 0.5 < metrics.auc < 1 and metrics["logloss"] > 0 and metrics.samples == 1200
    assert "auc" in dir(metrics) and "<table>" in metrics._repr_html_() and "auc" in repr(metrics)
    assert metrics.slices[0]["column"] == "hour" and len(metrics.slices[0]["slices"]) > 5
    with pytest.raises(AttributeError, match="it has"):
        metrics.colour
    assert "<table>" in model._repr_html_() and "dlrm" in repr(model)


def test_the_synthetic_log_needs_no_data():
    run = {"train": {"steps": 3, "batch": 64}, "data": {"synthetic": {"eval_samples": 256}}}
    assert campanile.train(run).summary.steps == 3
