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
    table, trainings = record("table"), record("trainings")
    assert table["rows"] == 10_000_000 and trainings["count"] == 1000
    for name, cores in (("overhead", "one of 16 cores"), ("overhead-two-cores", "one of two cores")):
        overhead = record(name)
        assert overhead["same_digest"]
        line = next(line for line in page.splitlines() if cores in line)
        shares = (signed(overhead[f"overhead_of_{kind}_seconds"]) for kind in ("least", "quartile", "median"))
        for figure in (f"{len(overhead['seconds']['python'])} each", f"| {', '.join(shares)} |"):
            assert figure in line, figure
    for figure in (
        f"{table['table_bytes'] / 1e6:.0f} MB, 10 M rows",
        f"| {table['peak_growth_of_taking_in_bytes'] / 1e6:.0f} MB |",
        f"| {table['peak_anonymous_growth_of_training_bytes'] / 1e6:.0f} MB, for",
        f"+{trainings['growth_since_the_100th_bytes'] / 1e6:.1f} MB, of {trainings['resident_bytes']['1000'] / 1e6:.0f} MB",
    ):
        assert figure in page, figure
