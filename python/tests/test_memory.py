"""Number columns of an Arrow table are not copied, and trainings leave nothing behind."""

import os
import subprocess
import sys

import pytest

from conftest import needed

SMALL = """
import gc, json, sys
sys.path.insert(0, {tests!r})
import campanile
from conftest import columns, config, flat

def resident():
    with open('/proc/self/statm') as statm:
        return int(statm.read().split()[1]) * 4096

data, run = flat(columns(400)), config()
def several(count):
    for _ in range(count):
        campanile.train(run, data=data, progress=False)
    gc.collect()
    return resident()

before = several(10)
print(several({count}) - before)
"""

TABLE = """
import resource, sys
import numpy, pyarrow
import campanile
from campanile._data import converted

rows = {rows}
draw = numpy.random.default_rng(1)
table = pyarrow.table({{
    'click': draw.integers(0, 2, rows),
    **{{f'x{{i}}': draw.random(rows) for i in range(6)}},
    'user': draw.integers(0, 1000, rows),
}})
schema = {{'label': {{'column': 'click'}}, 'dense': [{{'column': f'x{{i}}'}} for i in range(6)], 'sparse': [{{'column': 'user', 'rows': 1000}}]}}
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = peak()
held = converted(table)
print(held.rows, peak() - before, table.nbytes)
"""


def output(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_trainings_leave_nothing_behind():
    if not os.path.exists("/proc/self/statm"):
        pytest.skip("memory is known on Linux only")
    grown = int(output(SMALL.format(tests=os.path.dirname(__file__), count=30))[0])
    assert grown < 30 * 200_000, f"{grown / 30:.0f} bytes a training"


def test_number_columns_are_not_copied():
    needed("pyarrow")
    rows, grown, size = map(int, output(TABLE.format(rows=1_000_000)))
    assert rows == 1_000_000 and size >= 64_000_000
    assert grown < size / 20, f"{grown} bytes for a table of {size}"
