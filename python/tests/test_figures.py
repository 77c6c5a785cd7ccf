"""The figures of docs/guide/python.md are those of the records."""

import json
import pathlib

ROOT = pathlib.Path(__file__).parents[2]


def record(name):
    return json.loads((ROOT / "reports" / "python" / f"{name}.json").read_text())


def signed(share):
    return f"{'+' if share > 0 else '−'}{abs(share) * 100:.1f} %"


def test_figures_of_the_guide():
    page = (ROOT / "docs/guide/python.md").read_text()
    overhead, table, trainings = record("overhead"), record("table"), record("trainings")
    assert overhead["same_digest"] and table["rows"] == 10_000_000 and trainings["count"] == 1000
    for figure in (
        f"median of {len(overhead['seconds']['python'])}",
        f"{signed(overhead['overhead_of_median_seconds'])}, {signed(overhead['overhead_of_median_cpu_seconds'])};",
        f"{table['table_bytes'] / 1e6:.0f} MB, 10 M rows",
        f"| {table['peak_growth_of_taking_in_bytes'] / 1e6:.0f} MB |",
        f"| {table['peak_anonymous_growth_of_training_bytes'] / 1e6:.0f} MB, for",
        f"+{trainings['growth_since_the_100th_bytes'] / 1e6:.1f} MB, of {trainings['resident_bytes']['1000'] / 1e6:.0f} MB",
    ):
        assert figure in page, figure
