"""Training, and the models that it gives."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from typing import Any, Dict, List, Optional, Sequence, Union

from . import _campanile
from ._data import converted
from ._progress import Progress, shown
from ._results import Result


class Metrics(Result):
    """Quality on labelled data: ``auc``, ``logloss``, ``ne``, ``calibration``, ``samples`` and more; a metric that is not defined,
    such as the AUC of samples of one class, is ``None``."""

    auc: Optional[float]
    pr_auc: Optional[float]
    logloss: float
    ne: Optional[float]
    accuracy: float
    calibration: Optional[float]
    samples: int
    step: int
    parameters_sha256: str


def train(
    config: Union[None, str, os.PathLike, Mapping] = None,
    *,
    data: Any = None,
    eval: Any = None,
    label: Optional[str] = None,
    out: Union[None, str, os.PathLike] = None,
    progress: Progress = None,
) -> "Model":
    """Trains a model.

    :param config: keys of a run as a dict, or the path of a TOML file (docs/reference/config.md). All have defaults.
    :param data: what to train on: paths, a pandas, polars or pyarrow table, or a dict of arrays. Unless the config has a schema,
        the meaning of the columns is found by looking at them, and a tenth of the rows is kept from training and evaluated on.
        Without data, the run's own, or else the synthetic log.
    :param eval: what to evaluate on, as ``data``.
    :param label: column of the label, where it is not found.
    :param out: folder to keep the run in. Without one, it is in a temporary folder that lives as long as the model.
    :param progress: ``True`` or ``False``, or a function that is called with a dict for every event. By default progress is shown in
        terminals and notebooks.
    :raises CampanileError: with what is wrong, and what to do about it.
    :raises KeyboardInterrupt: after Ctrl-C, once the state is saved; ``campanile.resume`` goes on.
    """
    scratch = None
    if out is None:
        scratch = tempfile.mkdtemp(prefix="campanile-")
        out = os.path.join(scratch, "run")
    options: Dict[str, Any] = {"data": converted(data), "eval": converted(eval), "label": label}
    if isinstance(config, Mapping):
        options["config_json"] = json.dumps(config, default=_plain)
    elif config is not None:
        options["config_path"] = os.fspath(config)
    try:
        summary = _campanile.train(os.fspath(out), progress=shown(progress), **options)
    except KeyboardInterrupt:
        # What was trained so far can go on, wherever it is.
        raise
    except BaseException:
        if scratch is not None and not _has_checkpoint(os.fspath(out)):
            shutil.rmtree(scratch, ignore_errors=True)
        raise
    return Model(os.fspath(out), summary=json.loads(summary), _scratch=scratch)


def resume(folder: Union[str, os.PathLike], *, progress: Progress = None) -> "Model":
    """Goes on with the run in ``folder``, from its last whole checkpoint to its end. The result has the bits of a run that was never
    stopped."""
    summary = _campanile.resume(os.fspath(folder), progress=shown(progress))
    return Model(os.fspath(folder), summary=json.loads(summary))


def load(folder: Union[str, os.PathLike]) -> "Model":
    """The model of a run, or of a checkpoint, that was trained by this package or by the command line."""
    return Model(os.fspath(folder))


class Model:
    """A trained model: a run in a folder, of which the best checkpoint is used where it keeps one, else the last.

    ``folder`` is that of the run; ``summary`` has what training printed, with the digest of the parameters as
    ``parameters_sha256``, and is empty for a model that was loaded.
    """

    def __init__(self, folder: str, *, summary: Optional[Dict[str, Any]] = None, _scratch: Optional[str] = None) -> None:
        self._described = json.loads(_campanile.describe(folder))
        self.folder = folder
        self.summary = Metrics(summary or {})
        if _scratch is not None:
            self._finalizer = weakref.finalize(self, shutil.rmtree, _scratch, True)

    @property
    def step(self) -> int:
        """Steps that the parameters were trained for."""
        return self._described["step"]

    @property
    def kind(self) -> str:
        """Architecture: ``dlrm``, ``dcn`` or ``deepfm``."""
        return self._described["kind"]

    @property
    def features(self) -> List[str]:
        """Names of the sparse features, each of which has a table."""
        return [feature["name"] for feature in self._described["features"]]

    @property
    def config(self) -> Dict[str, Any]:
        """Config of the run, with every default written out."""
        return self._described["config"]

    @property
    def parameters_sha256(self) -> str:
        """Digest of the parameters: equal for equal bits."""
        return self._described["parameters_sha256"]

    def predict(self, data: Any, *, format: Optional[str] = None, progress: Progress = None):
        """Probabilities of the rows of ``data``, in their order, as a NumPy array of float32: one for each row or, for a model with
        several labels, one for each row and label. A row that cannot be read has ``nan``; the first are told in a warning."""
        import numpy

        raw, rows, bad, first = _campanile.predict(self.folder, converted(data), format=format, progress=shown(progress))
        if bad:
            import warnings

            lines = "".join(f"\n  {line}" for line in first)
            warnings.warn(f"{bad} row(s) without a probability; the first:{lines}", stacklevel=2)
        probabilities = numpy.frombuffer(raw, dtype=numpy.float32)
        labels = len(self.config["model"].get("labels", []) or [])
        return probabilities.reshape(rows, labels) if labels > 1 else probabilities

    def evaluate(
        self,
        data: Any = None,
        *,
        group: Optional[str] = None,
        slices: Sequence[str] = (),
        format: Optional[str] = None,
        progress: Progress = None,
    ) -> Metrics:
        """Metrics on ``data``, which have labels; without data, on what the run was evaluated on. ``group`` adds the AUC averaged over
        the values of a column, ``slices`` metrics by the values of columns."""
        told = _campanile.evaluate(
            self.folder, converted(data), format=format, group=group, slices=list(slices), progress=shown(progress)
        )
        return Metrics(json.loads(told))

    def embedding(self, feature: str):
        """Table of ``feature`` as a NumPy array of float32, rows × columns. A DeepFM's rows end in the linear weight of the id."""
        train = self._described["tensor_trains"].get(feature)
        if train is None:
            return self._tensor(f"tables.{feature}.weight", feature)
        # A tensor train: all rows are multiplied out of the cores.
        import numpy

        (i, j, k), (a, b, c), rank = train["rows"], train["columns"], train["rank"]
        shapes = [(i, a, rank), (j, rank, b, rank), (k, c, rank)]
        cores = [self._tensor(f"tables.{feature}.core.{core}", feature).reshape(shape) for core, shape in enumerate(shapes)]
        rows = numpy.einsum("iar,jrbs,kcs->ijkabc", *cores, optimize=True).reshape(i * j * k, a * b * c)
        return rows[: train["table_rows"], : train["width"]]

    def write_embedding(self, feature: str, path: Union[str, os.PathLike]) -> bool:
        """Writes the rows of a table with their ids to a new file: Parquet, TSV or CSV by its name. Whether ids are known."""
        return _campanile.write_embedding(self.folder, feature, os.fspath(path))

    def rows(self, data: Any, *, format: Optional[str] = None, progress: Progress = None) -> Dict[str, Any]:
        """Rows of ``data`` as the exported model takes them: NumPy arrays by the names of its inputs. A row that cannot be read is an
        error."""
        import numpy

        arrays = {}
        for name, width, floats, raw in _campanile.rows(self.folder, converted(data), format=format, progress=shown(progress)):
            array = numpy.frombuffer(raw, dtype=numpy.float32 if floats else numpy.int64)
            arrays[name] = array.reshape(-1, width) if width else array
        return arrays

    def save(self, folder: Union[str, os.PathLike]) -> "Model":
        """Copies the run to a new folder, which ``load`` and the command line read."""
        folder = os.fspath(folder)
        if os.path.lexists(folder):
            raise _campanile.CampanileError(f"{folder} exists already; choose another folder")
        partial = folder + ".partial"
        shutil.copytree(self.folder, partial)
        os.rename(partial, folder)
        return Model(folder, summary=self.summary.to_dict())

    def to_onnx(self, path: Union[str, os.PathLike], *, external_data: bool = False, force: bool = False) -> List[str]:
        """Writes the model for onnxruntime and other programs, and returns the files. Its inputs are what :meth:`rows` gives."""
        written = _campanile.export(self.folder, os.fspath(path), onnx=True, external_data=external_data, force=force)
        return [os.fspath(file) for file in written]

    def to_torch(self):
        """The model as a ``torch.nn.Module``, towers included: called with a dict of tensors as :meth:`rows` gives them, it returns
        probabilities. Needs PyTorch."""
        from ._torch import network

        return network(self._described["model"], lambda name: self._tensor(name, name), self._described["tensor_trains"])

    def _tensor(self, name: str, told: str):
        import numpy

        known = [tensor["name"] for tensor in self._described["tensors"]]
        if name not in known:
            raise _campanile.CampanileError(f"the checkpoint has no table of {told}; its features are {', '.join(self.features)}")
        shape, raw = _campanile.tensor(self.folder, name)
        return numpy.frombuffer(raw, dtype=numpy.float32).reshape(shape)

    def __repr__(self) -> str:
        parameters = self._described["parameters"]
        return f"Model({self.kind}, {parameters:,} parameters, step {self.step}, {self.folder!r})"

    def _repr_html_(self) -> str:
        shown_keys = ("auc", "logloss", "ne", "calibration", "samples_per_s", "seconds")
        values = {
            "model": self.kind,
            "parameters": self._described["parameters"],
            "step": self.step,
            **{key: self.summary[key] for key in shown_keys if self.summary.get(key) is not None},
        }
        return Result(values)._repr_html_().replace("<caption>Result", "<caption>Model")


def _plain(value: Any) -> Any:
    """Values of a config that JSON has not: paths, and NumPy's numbers."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"the config has a {type(value).__name__}, which is no value of a config")


def _has_checkpoint(folder: str) -> bool:
    checkpoints = os.path.join(folder, "checkpoints")
    return os.path.isdir(checkpoints) and any(os.scandir(checkpoints))
