"""Results: JSON objects of the command line, with attributes and a table for notebooks."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any, Dict, Iterator


class Result(Mapping):
    """What a command prints with ``--json``: a mapping whose keys are attributes too."""

    def __init__(self, values: Dict[str, Any]) -> None:
        self._values = values

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_values"][name]
        except KeyError:
            known = ", ".join(sorted(self.__dict__.get("_values", {})))
            raise AttributeError(f"{type(self).__name__} has no {name}; it has {known}") from None

    def __dir__(self) -> list:
        return sorted(set(super().__dir__()) | {key for key in self._values if key.isidentifier()})

    def to_dict(self) -> Dict[str, Any]:
        """The values as plain dicts and lists."""
        return dict(self._values)

    def _shown(self) -> Dict[str, Any]:
        plain = (bool, int, float, str)
        return {key: value for key, value in self._values.items() if isinstance(value, plain)}

    def __repr__(self) -> str:
        shown = ", ".join(f"{key}={_text(value)}" for key, value in self._shown().items())
        return f"{type(self).__name__}({shown})"

    def _repr_html_(self) -> str:
        rows = (
            f"<tr><td>{html.escape(key)}</td><td style='text-align:right'>{html.escape(_text(value))}</td></tr>"
            for key, value in self._shown().items()
        )
        return f"<table><caption>{type(self).__name__}</caption>{''.join(rows)}</table>"


class Drawn(Result):
    """A result with a page of its own, which notebooks show."""

    def __init__(self, values: Dict[str, Any], page: str) -> None:
        super().__init__(values)
        self._page = page

    def to_html(self) -> str:
        """The page that the command line writes with ``--html``."""
        return self._page

    def _repr_html_(self) -> str:
        source = html.escape(self._page, quote=True)
        return f'<iframe srcdoc="{source}" style="width:100%;height:640px;border:0"></iframe>'


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
