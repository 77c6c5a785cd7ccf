"""Train recommendation models on data frames, click logs or a synthetic log, and predict with them.

>>> import campanile
>>> model = campanile.train({"train": {"epochs": 2}}, data=frame, label="click")  # doctest: +SKIP
>>> model.predict(frame)  # doctest: +SKIP

Configs have the keys of the command line's TOML files (docs/reference/config.md), as a dict or as the path of a file. Data are
paths, pandas, polars or pyarrow tables, anything else with ``__arrow_c_stream__``, or dicts of NumPy arrays. Errors are
``CampanileError`` with the texts of the command line.
"""

from ._answers import Exploration, Partition, Plan, Simulation, explore, partition, plan, simulate
from ._campanile import CampanileError, __version__
from ._model import Metrics, Model, load, resume, train

__all__ = [
    "CampanileError",
    "Exploration",
    "Metrics",
    "Model",
    "Partition",
    "Plan",
    "Simulation",
    "__version__",
    "explore",
    "load",
    "partition",
    "plan",
    "resume",
    "simulate",
    "train",
]
