"""The compiled part of the package. What people use is in ``campanile`` itself."""

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

__version__: str

class CampanileError(Exception):
    """What was asked for cannot be done. The text says what is wrong, and what to do about it."""

class Table:
    @staticmethod
    def from_stream(capsule: Any) -> "Table": ...
    @staticmethod
    def from_columns(columns: Sequence[Tuple[str, Any, Optional[bytes]]]) -> "Table": ...
    @property
    def rows(self) -> int: ...
    @property
    def columns(self) -> List[str]: ...

_Data = Union[Table, List[str]]
_Progress = Optional[Callable[[Dict[str, Any]], Any]]

def train(
    out: str,
    *,
    config_path: Optional[str] = None,
    config_json: Optional[str] = None,
    data: Optional[_Data] = None,
    eval: Optional[_Data] = None,
    label: Optional[str] = None,
    progress: _Progress = None,
) -> str: ...
def resume(folder: str, *, progress: _Progress = None) -> str: ...
def predict(
    folder: str, data: _Data, *, format: Optional[str] = None, which: Optional[str] = None, progress: _Progress = None
) -> Tuple[bytearray, int, int, List[str]]: ...
def evaluate(
    folder: str,
    data: Optional[_Data] = None,
    *,
    format: Optional[str] = None,
    which: Optional[str] = None,
    group: Optional[str] = None,
    slices: List[str] = ...,
    progress: _Progress = None,
) -> str: ...
def rows(
    folder: str, data: _Data, *, format: Optional[str] = None, which: Optional[str] = None, progress: _Progress = None
) -> List[Tuple[str, int, bool, bytearray]]: ...
def describe(folder: str, which: Optional[str] = None) -> str: ...
def tensor(folder: str, name: str, which: Optional[str] = None) -> Tuple[List[int], bytearray]: ...
def export(
    folder: str, out: str, *, onnx: bool, external_data: bool = False, force: bool = False, which: Optional[str] = None
) -> List[str]: ...
def write_embedding(folder: str, feature: str, out: str, *, which: Optional[str] = None) -> bool: ...
def answer(arguments: List[str]) -> Tuple[str, str]: ...
