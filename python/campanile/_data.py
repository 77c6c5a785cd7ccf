"""Data as the compiled part takes them: a list of paths, or a table whose buffers are read where they lie."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, List, Optional, Union

from ._campanile import Table

Converted = Union[List[str], Table]


def converted(data: Any) -> Optional[Converted]:
    """Paths or a table of ``data``; ``None`` for ``None``."""
    if data is None:
        return None
    if isinstance(data, (str, os.PathLike)):
        return [os.fspath(data)]
    if isinstance(data, (list, tuple)) and data and all(isinstance(path, (str, os.PathLike)) for path in data):
        return [os.fspath(path) for path in data]
    if isinstance(data, Table):
        return data
    if isinstance(data, Mapping):
        return Table.from_columns([(str(name), _column(values), None) for name, values in data.items()])
    if _is_pandas(data):
        return _of_pandas(data)
    if hasattr(data, "__arrow_c_stream__"):
        return Table.from_stream(data.__arrow_c_stream__())
    raise TypeError(
        f"data of type {type(data).__name__}: give a path or a list of paths, a pandas, polars or pyarrow table, or a dict of arrays"
    )


def _is_pandas(data: Any) -> bool:
    return type(data).__module__.split(".")[0] == "pandas" and hasattr(data, "columns")


def _of_pandas(frame: Any) -> Table:
    """Columns of a data frame; its index is no column."""
    names = [str(name) for name in frame.columns]
    try:
        import pyarrow
    except ImportError:
        # Without pyarrow, columns are NumPy arrays, and texts are copied one by one.
        columns = (frame.iloc[:, at] for at in range(len(names)))
        return Table.from_columns([(name, *_of_series(column)) for name, column in zip(names, columns)])
    if any(not isinstance(name, str) for name in frame.columns):
        frame = frame.set_axis(names, axis=1)
    try:
        table = pyarrow.Table.from_pandas(frame, preserve_index=False)
    except (ValueError, TypeError, NotImplementedError) as error:
        from ._campanile import CampanileError

        raise CampanileError(f"the table cannot be read: {error}; give every column a name of its own and values of one type") from error
    return Table.from_stream(table.__arrow_c_stream__())


def _of_series(series: Any) -> Any:
    """Values of a column of pandas, and which of them are missing."""
    column = _column(series)
    missing = series.isna()
    return column, (None if isinstance(column, list) or not missing.any() else missing.to_numpy().tobytes())


def _column(values: Any) -> Any:
    """A column as a NumPy array whose numbers lie side by side, or as a list of objects."""
    import numpy

    if isinstance(values, (list, tuple)):
        return list(values)
    array = numpy.asarray(values)
    if array.dtype.kind in "OUST":
        return array.tolist() if array.ndim == 1 else list(array)
    if array.dtype.kind == "f" and array.dtype.itemsize not in (4, 8):
        array = array.astype(numpy.float32 if array.dtype.itemsize < 4 else numpy.float64)
    return numpy.ascontiguousarray(array)
