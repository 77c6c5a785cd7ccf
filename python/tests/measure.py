"""Measures what the Python package costs, and keeps the raw numbers in reports/python.

    python python/tests/measure.py overhead --binary target/release/campanile
    python python/tests/measure.py table --rows 10000000
    python python/tests/measure.py trainings --count 1000

Run it with a Python that has a wheel of scripts/wheel, pandas and pyarrow, from the root of the repository.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import pathlib
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import campanile

REPORTS = pathlib.Path(__file__).parents[2] / "reports" / "python"


def keep(name: str, record: dict) -> None:
    """Writes a record with what it was measured on."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=REPORTS.parents[1]).stdout.strip()
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.platform()}
    REPORTS.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"commit": commit, "version": campanile.__version__, "machine": machine, **record}, indent=1)
    (REPORTS / f"{name}.json").write_text(text + "\n")
    print(text)


def resident() -> int:
    """Bytes of this process in memory."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


class Watch:
    """Largest anonymous memory of this process while it is watched: what is not a mapped file."""

    def __enter__(self) -> "Watch":
        self.before = self.largest = self.anonymous()
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.look)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.thread.join()

    def look(self) -> None:
        while not self.done.wait(0.01):
            self.largest = max(self.largest, self.anonymous())

    @staticmethod
    def anonymous() -> int:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon:"))


def overhead(binary: str, repeats: int) -> None:
    """Times of one run on one rank by the command line and from Python, in turns on one core: wall and CPU time of whole processes.

    Whatever else a machine does makes runs slower and none faster, and on a machine that others share it does so by tens of percent. Hence what
    counts is the least time of many runs, and the lower quartile beside it, which says how well the least is known."""
    config = "[train]\nsteps = 400\nthreads = 1\n[topology]\nhosts = 1\nranks_per_host = 1\n[data.synthetic]\neval_samples = 32768\n"
    call = "import campanile, json, sys; m = campanile.train(sys.argv[1], out=sys.argv[2], progress=False); print(json.dumps(m.summary.to_dict()))"
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    times = {"command_line": [], "python": []}
    cpu = {"command_line": [], "python": []}
    digests = set()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.toml")
        pathlib.Path(path).write_text(config)
        for number in range(repeats):
            asked = {
                "command_line": [binary, "train", path, "--out", f"{folder}/cli{number}", "--quiet", "--json"],
                "python": [sys.executable, "-c", call, path, f"{folder}/py{number}"],
            }
            order = list(asked) if number % 2 == 0 else list(reversed(asked))
            for name in order:
                used, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
                done = subprocess.run(asked[name], capture_output=True, text=True, check=True)
                times[name].append(time.perf_counter() - began)
                since = resource.getrusage(resource.RUSAGE_CHILDREN)
                cpu[name].append(since.ru_utime + since.ru_stime - used.ru_utime - used.ru_stime)
                digests.add(json.loads(done.stdout.splitlines()[-1])["parameters_sha256"])
            last = ", ".join(f"{name} {values[-1]:.2f} s (least {min(values):.2f})" for name, values in times.items())
            print(f"round {number + 1} of {repeats}: {last}", file=sys.stderr, flush=True)
    over = lambda kind, seconds: kind(seconds["python"]) / kind(seconds["command_line"]) - 1  # noqa: E731
    quartile = lambda values: statistics.quantiles(values, n=4)[0]  # noqa: E731
    keep(
        "overhead",
        {
            "config": config,
            "seconds": times,
            "cpu_seconds": cpu,
            "overhead_of_least_seconds": over(min, times),
            "overhead_of_quartile_seconds": over(quartile, times),
            "overhead_of_median_seconds": over(statistics.median, times),
            "overhead_of_least_cpu_seconds": over(min, cpu),
            "overhead_of_quartile_cpu_seconds": over(quartile, cpu),
            "overhead_of_median_cpu_seconds": over(statistics.median, cpu),
            "same_digest": len(digests) == 1,
        },
    )


def table(rows: int) -> None:
    """Peak memory of taking in an Arrow table, and of training on it, beside its size."""
    import numpy
    import pyarrow

    from campanile._data import converted

    draw = numpy.random.default_rng(1)
    numbers = {f"x{i}": draw.random(rows, dtype=numpy.float32) for i in range(8)}
    arrow = pyarrow.table({"click": draw.integers(0, 2, rows, dtype=numpy.int8), **numbers, "user": draw.integers(0, 100_000, rows)})
    schema = {
        "label": {"column": "click"},
        "dense": [{"column": name} for name in numbers],
        "sparse": [{"column": "user", "rows": 100_000}],
    }
    gc.collect()
    peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # noqa: E731
    before = peak()
    began = time.perf_counter()
    converted(arrow)
    taken, seconds = peak() - before, time.perf_counter() - began
    run = {"data": {"schema": schema, "split": 0.01}, "model": {"dim": 8}, "train": {"steps": 20, "batch": 4096}}
    began = time.perf_counter()
    with Watch() as watch:
        model = campanile.train(run, data=arrow, progress=False)
    trained = peak() - before
    record = {
        "rows": rows,
        "table_bytes": arrow.nbytes,
        "peak_growth_of_taking_in_bytes": taken,
        "taking_in_seconds": seconds,
        "peak_growth_of_training_bytes": trained,
        "peak_anonymous_growth_of_training_bytes": watch.largest - watch.before,
        "training_seconds": time.perf_counter() - began,
        "steps": model.step,
    }
    keep("table", record)


def trainings(count: int) -> None:
    """Memory of this process over many trainings on a data frame."""
    import numpy

    draw = numpy.random.default_rng(1)
    rows = 500
    frame = {"click": draw.integers(0, 2, rows), "price": draw.random(rows), "user": draw.integers(0, 50, rows)}
    schema = {"label": {"column": "click"}, "dense": [{"column": "price"}], "sparse": [{"column": "user", "rows": 100}]}
    run = {
        "data": {"schema": schema, "split": 0.2},
        "model": {"dim": 4, "bottom": [8, 4], "top": [8, 1]},
        "topology": {"hosts": 1, "ranks_per_host": 1},
        "train": {"batch": 64, "threads": 1},
    }
    seen = {}
    for number in range(1, count + 1):
        model = campanile.train(run, data=frame, progress=False)
        model.predict(frame, progress=False)
        del model
        if number in (10, 20, 50, 100) or number % 100 == 0:
            gc.collect()
            seen[number] = resident()
    first, last = seen[min(100, max(seen))], seen[max(seen)]
    keep("trainings", {"count": count, "resident_bytes": seen, "growth_since_the_100th_bytes": last - first})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_subparsers(required=True, dest="what")
    asked = what.add_parser("overhead")
    asked.add_argument("--binary", required=True)
    asked.add_argument("--repeats", type=int, default=30, help="runs of each kind")
    what.add_parser("table").add_argument("--rows", type=int, default=10_000_000)
    what.add_parser("trainings").add_argument("--count", type=int, default=1000)
    given = parser.parse_args()
    if given.what == "overhead":
        overhead(given.binary, given.repeats)
    elif given.what == "table":
        table(given.rows)
    else:
        trainings(given.count)


if __name__ == "__main__":
    main()
