"""Questions of the command line: what a step costs elsewhere, which plan or strategy is best, which features share a tower."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from typing import Any, Dict, List, Optional

from . import _campanile
from ._results import Drawn


class Simulation(Drawn):
    """A step on other hardware: times, exposed communication and memory."""

    iteration_ms: float
    communication_ms: float
    exposed_ms: float
    samples_per_s: float
    memory_gb: float
    device_memory_gb: float
    fits: bool
    devices: int
    operations: List[Dict[str, Any]]


class Exploration(Drawn):
    """Strategies on systems, the fastest first."""

    best: List[Dict[str, Any]]
    as_is: Dict[str, Any]
    what_if: List[Dict[str, Any]]
    points: int
    evaluated: int
    seconds: float


class Plan(Drawn):
    """Which ranks hold which rows and columns of each table, and why."""

    tables: List[Dict[str, Any]]
    ranks: List[Dict[str, Any]]
    cost_ms: float
    bound_ms: float
    imbalance: float
    fits: bool


class Partition(Drawn):
    """Features divided into towers; ``towers`` is a list of lists of names."""

    towers: List[List[str]]
    within: Optional[float]
    across: Optional[float]
    max_over_min: float
    seconds: float


def _flags(options: Mapping) -> List[str]:
    """Flags of the command line: ``batch=512`` is ``--batch 512``, ``True`` a bare flag, a list several values."""
    flags = []
    for name, value in options.items():
        flag = "--" + name.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        flags.append(flag)
        if isinstance(value, (list, tuple)):
            flags.append(",".join(str(one) for one in value))
        elif value is not True:
            flags.append(os.fspath(value) if isinstance(value, os.PathLike) else str(value))
    return flags


def _ask(kind: type, arguments: List[str]) -> Any:
    values, page = _campanile.answer(arguments)
    return kind(json.loads(values), page)


def simulate(model: str = "dlrm", system: str = "h100:64", **options: Any) -> Simulation:
    """Predicts a training step of ``model`` on ``system``, as ``campanile simulate`` does.

    ``model`` and ``system`` are names or files; options are the command's flags, such as ``task="inference"``, ``cost="madmax"``,
    ``batch=512`` or ``wire="bf16"``.
    """
    return _ask(Simulation, ["simulate", "--model", os.fspath(model), "--system", os.fspath(system), *_flags(options)])


def explore(model: str = "dlrm-a", **options: Any) -> Exploration:
    """Simulates every strategy of ``model`` on every system given, as ``campanile explore`` does.

    Options are the command's flags, such as ``systems=["zionex:128", "h100:128"]``, ``what_if="inter=2,10"`` or ``top=5``.
    """
    return _ask(Exploration, ["explore", "--model", os.fspath(model), *_flags(options)])


def plan(config: Any = None, *, hosts: Optional[int] = None, ranks_per_host: Optional[int] = None, **options: Any) -> Plan:
    """Plans which ranks hold which rows and columns of each table, as ``campanile plan`` does.

    ``config`` is the path of a TOML file or a dict; options are the command's flags, such as ``memory_per_rank="40GiB"``,
    ``system="h100:16"`` or ``out="plan.json"``.
    """
    flags = _flags({"hosts": hosts, "ranks_per_host": ranks_per_host, **options})
    if not isinstance(config, Mapping):
        return _ask(Plan, ["plan", *([] if config is None else [os.fspath(config)]), *flags])
    with tempfile.TemporaryDirectory(prefix="campanile-") as folder:
        path = os.path.join(folder, "run.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(to_toml(config))
        return _ask(Plan, ["plan", path, *flags])


def partition(source: Any, towers: int, *, out: Optional[str] = None, **options: Any) -> Partition:
    """Divides features into ``towers`` by their affinity, as ``campanile partition`` does.

    ``source`` is a model or the folder of a run, on which the affinity is measured, or a file of affinities (``.json`` or ``.npy``).
    ``out`` keeps the towers for ``train`` (``{"model": {"towers": out}}``). Options are the command's flags, such as
    ``strategy="diverse"`` or ``seed=1``.
    """
    folder = getattr(source, "folder", source)
    flag = "--checkpoint" if os.path.isdir(folder) else "--affinity"
    written = ["--out", os.fspath(out) if out is not None else os.devnull]
    return _ask(Partition, ["partition", flag, os.fspath(folder), "--towers", str(towers), *written, *_flags(options)])


def to_toml(config: Mapping) -> str:
    """A config as TOML: tables first by their plain keys, then by their tables."""

    def value(one: Any) -> str:
        if isinstance(one, bool):
            return "true" if one else "false"
        if isinstance(one, (int, float)):
            return repr(one)
        if isinstance(one, (list, tuple)):
            return "[" + ", ".join(value(item) for item in one) + "]"
        if isinstance(one, Mapping):
            return "{ " + ", ".join(f"{json.dumps(str(key))} = {value(item)}" for key, item in one.items()) + " }"
        return json.dumps(os.fspath(one) if isinstance(one, os.PathLike) else str(one), ensure_ascii=False)

    return "".join(f"{json.dumps(str(key))} = {value(one)}\n" for key, one in config.items() if one is not None)
