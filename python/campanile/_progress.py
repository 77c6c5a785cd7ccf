"""Progress in terminals and notebooks: one line that is written anew."""

from __future__ import annotations

import sys
import time
from typing import Any, Callable, Dict, Optional, Union

Progress = Union[None, bool, Callable[[Dict[str, Any]], Any]]


def shown(progress: Progress) -> Optional[Callable[[Dict[str, Any]], Any]]:
    """The callback for events: the caller's own, a line on standard error where someone looks, or none."""
    if callable(progress):
        return progress
    if progress is None:
        progress = _someone_looks()
    return Line() if progress else None


def _someone_looks() -> bool:
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if hasattr(shell, "kernel"):
        return True
    return bool(getattr(sys.stderr, "isatty", lambda: False)())


class Line:
    """A line that tells how far the work is, written anew at most ten times a second."""

    def __init__(self, out: Any = None) -> None:
        self._out = out if out is not None else sys.stderr
        self._work: Dict[str, Any] = {}
        self._width = 0
        self._last = 0.0

    def __call__(self, event: Dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "started":
            self._work = event
        elif kind == "finished":
            self._clear()
        elif kind == "noticed":
            self._clear()
            self._out.write(event["text"] + "\n")
        elif kind == "advanced":
            total = event["total"] or self._work.get("total", 0)
            of = f" of {total:,}" if total else ""
            self._show(f"{self._work.get('name', 'working')}: {event['done']:,}{of} {self._work.get('unit', '')}")
        elif kind == "training":
            auc = "" if event["auc"] is None else f", AUC {event['auc']:.4f}"
            self._show(
                f"training: {event['step']:,} of {event['steps']:,} steps, loss {event['loss']:.4f}{auc}, "
                f"{event['samples_per_s']:,.0f} samples/s"
            )

    def _show(self, text: str) -> None:
        if time.monotonic() - self._last < 0.1:
            return
        self._last = time.monotonic()
        self._out.write("\r" + text.ljust(self._width))
        self._out.flush()
        self._width = len(text)

    def _clear(self) -> None:
        if self._width:
            self._out.write("\r" + " " * self._width + "\r")
            self._out.flush()
            self._width = 0
