"""The wheel alone is enough: an empty environment, one `pip install`, ten lines."""

import os
import subprocess
import sys

import campanile
from conftest import skipped

PROGRAM = """
import campanile
import numpy as np

draw = np.random.default_rng(1)
user = draw.integers(0, 50, 3000)
frame = {"click": (draw.random(3000) < user / 50).astype(int), "price": draw.random(3000), "user": [f"u{one}" for one in user]}
model = campanile.train({"train": {"epochs": 2}}, data=frame, label="click")
probabilities = model.predict(frame)
assert probabilities.shape == (3000,) and model.evaluate(frame).auc > 0.5
print(model.parameters_sha256)
"""


def test_the_wheel_in_an_empty_environment(tmp_path):
    wheel = os.environ.get("CAMPANILE_WHEEL")
    if wheel is None:
        skipped("the wheel to install is not known: name it with CAMPANILE_WHEEL")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "empty"], check=True)
    python = tmp_path / "empty" / "bin" / "python"
    installed = subprocess.run([python, "-m", "pip", "install", "--quiet", wheel], capture_output=True, text=True)
    if installed.returncode != 0:
        skipped(f"pip cannot install the wheel with NumPy: {installed.stderr[-300:]}")
    done = subprocess.run([python, "-c", PROGRAM], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    known = {}
    exec(PROGRAM, known)
    assert done.stdout.split()[-1] == known["model"].parameters_sha256
    assert campanile.__version__ in os.path.basename(wheel)
