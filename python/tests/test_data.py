"""The same rows give the same bits, however they come; what cannot be read is an exception with a remedy."""

import numpy
import pytest

import campanile
from conftest import MULTI_HOT, columns, config, flat, needed


def frames(data):
    """The rows as every kind of data that is installed."""
    given = {"dict": {name: numpy.array(values) if name in ("click", "price", "hour") else values for name, values in data.items()}}
    given["pandas"] = needed("pandas").DataFrame(data)
    given["polars"] = needed("polars").DataFrame(data)
    given["pyarrow"] = needed("pyarrow").table(data)
    return given


def test_every_kind_of_data_gives_the_digest_of_the_command_line(shop, csv, command_line, tmp_path):
    run = config()
    by_file = campanile.train(run, data=csv, out=tmp_path / "file")
    again = command_line("train", tmp_path / "file" / "config.toml", "--out", tmp_path / "again")
    digest = by_file.summary.parameters_sha256
    assert again["parameters_sha256"] == digest and again["auc"] == by_file.summary.auc
    for name, frame in frames(flat(shop)).items():
        model = campanile.train(run, data=frame)
        assert model.summary.parameters_sha256 == digest, name
        assert model.parameters_sha256 == model.summary.parameters_sha256


def test_roles_are_found_alike_in_every_kind_of_data(shop, csv):
    found = {}
    run = {key: value for key, value in config().items() if key != "data"}
    for name, data in {"file": csv, **frames(flat(shop))}.items():
        model = campanile.train(run, data=data, label="click")
        found[name] = (sorted(model.features), model.summary.parameters_sha256)
    assert len(set(map(str, found.values()))) == 1, found
    assert found["file"][0] == ["brand", "user"] or "user" in found["file"][0]


def test_lists_are_bags(shop):
    digests = {
        name: campanile.train(config(MULTI_HOT), data=frame).summary.parameters_sha256 for name, frame in frames(shop).items()
    }
    assert len(set(digests.values())) == 1, digests


def test_evaluation_data_may_be_a_table(shop):
    run = config()
    run["data"].pop("split")
    model = campanile.train(run, data=flat(shop), eval=flat(columns(300, seed=2)))
    assert model.summary.eval_samples == 300
    assert model.evaluate(flat(columns(300, seed=2))).auc == model.summary.auc
    assert model.evaluate().auc == model.summary.auc


def test_the_index_of_a_frame_is_no_column(shop):
    pandas = needed("pandas")
    frame = pandas.DataFrame(flat(shop))
    some = frame[frame.hour > 3]
    model = campanile.train(config(), data=some)
    assert model.predict(some).shape == (len(some),)
    run = {key: value for key, value in config().items() if key != "data"}
    assert not any("index" in name for name in campanile.train(run, data=some, label="click").features)


def test_categories_are_their_values(shop):
    pandas = needed("pandas")
    needed("pyarrow")
    frame = pandas.DataFrame(flat(shop))
    plain = campanile.train(config(), data=frame)
    frame["brand"] = frame["brand"].astype("category")
    assert campanile.train(config(), data=frame).summary.parameters_sha256 == plain.summary.parameters_sha256


def test_pandas_without_pyarrow(shop, monkeypatch):
    import sys

    pandas = needed("pandas")
    frame = pandas.DataFrame(flat(shop)).astype({"user": object, "brand": object})
    expected = campanile.train(config(), data=frame).summary.parameters_sha256
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert campanile.train(config(), data=frame).summary.parameters_sha256 == expected


def refusal(data, run=None, **options):
    with pytest.raises(campanile.CampanileError) as caught:
        campanile.train(run or config(), data=data, **options)
    return str(caught.value)


def test_wrong_types_name_the_column(shop):
    wrong = {**flat(shop), "price": ["dear"] * 1200}
    assert "price" in refusal(wrong) and "expected booleans, integers or floats" in refusal(wrong)
    mixed = {**flat(shop), "user": ["u1", 7] * 600}
    told = refusal(mixed)
    assert "user" in told and "row 1" in told and "one type" in told


def test_frames_that_arrow_has_not(shop):
    pandas = needed("pandas")
    needed("pyarrow")
    frame = pandas.DataFrame(flat(shop))
    assert "of one type" in refusal(frame.assign(user=["u1", 7] * 600))
    twice = pandas.concat([frame, frame[["user"]]], axis=1)
    assert "a name of its own" in refusal(twice)


def test_numbers_that_are_none_are_bad_rows(shop):
    nan = {**flat(shop), "price": numpy.array([numpy.nan] * 1200)}
    told = refusal(nan)
    assert "price" in told and "finite number, got NaN" in told


def test_labels_that_are_no_labels(shop):
    told = refusal({**flat(shop), "click": numpy.array([3] * 1200)})
    assert "expected a label of 0 or 1" in told and "positive_from" in told
    told = refusal(flat(shop), run={key: value for key, value in config().items() if key != "data"}, label="clack")
    assert "clack" in told


def test_nested_columns_are_refused_where_they_are_used(shop):
    pyarrow = needed("pyarrow")
    table = pyarrow.table(flat(shop))
    nested = pyarrow.array([{"x": 1}] * 1200)
    told = refusal(table.set_column(table.schema.get_field_index("user"), "user", nested))
    assert "user" in told and "Struct" in told
    # Beside the columns of the schema it does not matter.
    assert campanile.train(config(), data=table.append_column("extra", nested)).step > 0


def test_no_rows(shop):
    empty = {name: values[:0] for name, values in flat(shop).items()}
    for data in (empty, needed("pandas").DataFrame(empty), needed("pyarrow").table(empty)):
        assert "the table: there are no samples to train on" in refusal(data)
        assert "no samples to train on" in refusal(data, run={"train": {"epochs": 1}}, label="click")
    model = campanile.train(config(), data=flat(shop))
    assert model.predict(empty).shape == (0,)
    assert model.rows(empty)["dense"].shape == (0, 2)


def test_columns_that_are_missing_or_unequal(shop):
    data = flat(shop)
    data.pop("brand")
    assert "brand" in refusal(data) and "its columns are" in refusal(data)
    unequal = {**flat(shop), "hour": shop["hour"][:-1]}
    assert "hour" in refusal(unequal) and "1199 rows" in refusal(unequal)
    assert "2 dimensions" in refusal({**flat(shop), "price": numpy.zeros((1200, 2))})


def test_what_is_no_data():
    with pytest.raises(TypeError, match="a pandas, polars or pyarrow table"):
        campanile.train(config(), data=7)
    assert "nowhere.csv" in refusal("nowhere.csv")


def test_unknown_keys_of_a_config(shop):
    assert "bach" in refusal(flat(shop), run={"train": {"bach": 3}})
    with pytest.raises(TypeError, match="no value of a config"):
        campanile.train({"train": {"batch": object()}}, data=flat(shop))
