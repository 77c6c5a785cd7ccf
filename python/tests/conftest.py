"""A small shop's log in every form, and the command line to compare with."""

import json
import math
import os
import random
import shutil
import subprocess

import pytest

SCHEMA = {
    "label": {"column": "click"},
    "dense": [{"column": "price", "transform": "log"}, {"column": "age", "missing": 30.0}],
    "sparse": [
        {"column": "user", "rows": 300},
        {"column": "brand", "ids": "vocabulary", "min_count": 2},
        {"column": "hour", "ids": "index", "rows": 24},
    ],
}

BAGS = [
    {"column": "tags", "list": True, "rows": 50, "pooling": "mean"},
    {"column": "bought", "list": True, "rows": 40, "weights": "amounts"},
]
MULTI_HOT = {**SCHEMA, "sparse": SCHEMA["sparse"] + BAGS}


def config(schema=SCHEMA, **model):
    """A small run on one rank."""
    return {
        "data": {"schema": schema, "split": 0.2},
        "model": {"dim": 8, "bottom": [16, 8], "top": [16, 1], **model},
        "topology": {"hosts": 1, "ranks_per_host": 1},
        "train": {"batch": 64, "epochs": 2, "threads": 1},
    }


def columns(rows=1200, seed=1):
    """Columns by name: a label, two numbers, three ids; some are missing."""
    draw = random.Random(seed)
    data = {name: [] for name in ("click", "price", "age", "user", "brand", "hour", "tags", "bought", "amounts")}
    for row in range(rows):
        user, brand, hour = draw.randrange(80), draw.randrange(20), draw.randrange(24)
        logit = math.sin(user) + 0.5 * math.cos(3 * brand) - 0.2
        data["click"].append(int(draw.random() < 1 / (1 + math.exp(-2 * logit))))
        data["price"].append(round(draw.random() * 100, 2))
        data["age"].append(None if row % 7 == 0 else float(18 + draw.randrange(50)))
        data["user"].append(f"u{user}")
        data["brand"].append(f"b{brand}")
        data["hour"].append(hour)
        data["tags"].append([f"t{draw.randrange(30)}" for _ in range(draw.randrange(4))])
        data["bought"].append([draw.randrange(60) for _ in range(draw.randrange(3))])
        data["amounts"].append([round(draw.random() * 3, 2) for _ in data["bought"][-1]])
    return data


def flat(data):
    """Columns without lists."""
    return {name: values for name, values in data.items() if name not in ("tags", "bought", "amounts")}


@pytest.fixture(scope="session")
def shop():
    return columns()


@pytest.fixture(scope="session")
def csv(shop, tmp_path_factory):
    """The log as a text without lists."""
    path = tmp_path_factory.mktemp("log") / "log.csv"
    data = flat(shop)
    text = lambda value: "" if value is None else str(value)  # noqa: E731
    lines = [",".join(data)] + [",".join(map(text, row)) for row in zip(*data.values())]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.fixture(scope="session")
def command_line():
    """Runs the command line, whose last line must be JSON."""
    binary = os.environ.get("CAMPANILE_BINARY") or shutil.which("campanile")
    if binary is None:
        skipped("the command line is not there to compare with: name it with CAMPANILE_BINARY")

    def run(*arguments):
        done = subprocess.run([binary, *map(str, arguments), "--json"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run


def skipped(why):
    """Skips a test, unless CAMPANILE_NO_SKIPS names python."""
    if "python" in os.environ.get("CAMPANILE_NO_SKIPS", "").split():
        pytest.fail(f"CAMPANILE_NO_SKIPS names python, but {why}")
    pytest.skip(why)


def needed(module):
    """A package that a test compares with; without it the test is skipped."""
    try:
        return __import__(module)
    except ImportError:
        # PyTorch is large, and never demanded.
        if module == "torch":
            pytest.skip("torch is not installed")
        skipped(f"{module} is not installed")
