"""Simulations, explorations, plans and partitions are those of the command line, with its words where something is wrong."""

import pytest

import campanile
from conftest import config, flat


def test_simulate(command_line):
    told = command_line("simulate", "--model", "8t-dlrm", "--system", "h100:64")
    found = campanile.simulate("8t-dlrm", system="h100:64")
    assert found.to_dict() == told
    assert found._repr_html_().startswith("<iframe") and "<svg" in found.to_html()
    with pytest.raises(campanile.CampanileError, match="h900"):
        campanile.simulate("dlrm", system="h900")
    with pytest.raises(campanile.CampanileError, match="--colour"):
        campanile.simulate("dlrm", colour="red")


def test_results_have_what_their_types_say(shop):
    found = {
        campanile.Simulation: campanile.simulate(),
        campanile.Exploration: campanile.explore("dlrm-a", top=2),
        campanile.Plan: campanile.plan(hosts=2, ranks_per_host=2),
    }
    for kind, result in found.items():
        assert isinstance(result, kind)
        missing = [name for name in kind.__annotations__ if name not in result]
        assert not missing, (kind, missing)


def test_explore():
    found = campanile.explore("dlrm-a", systems=["zionex:128", "h100:128"], top=3)
    assert len(found) > 0 and "<html" in found.to_html()


def test_plan(tmp_path):
    run = {"model": {"preset": "demo"}}
    found = campanile.plan(run, hosts=2, ranks_per_host=2, out=tmp_path / "plan.json")
    assert (tmp_path / "plan.json").is_file() and "<html" in found.to_html()
    with pytest.raises(campanile.CampanileError, match="KiB|MB|fit"):
        campanile.plan(run, hosts=1, ranks_per_host=1, memory_per_rank="1KiB")


def test_partition(shop, tmp_path):
    model = campanile.train(config(), data=flat(shop), out=tmp_path / "run")
    found = campanile.partition(model, towers=2, out=tmp_path / "towers.json")
    assert sorted(name for tower in found.towers for name in tower) == ["brand", "hour", "user"]
    assert (tmp_path / "towers.json").is_file() and "svg" in found.to_html()
