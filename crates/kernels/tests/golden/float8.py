"""Writes float8.txt: the values of all codes of 8-bit floats, as torch decodes them."""

import pathlib

import torch

codes = torch.arange(256, dtype=torch.uint8)
formats = [codes.view(dtype).to(torch.float64).tolist() for dtype in (torch.float8_e4m3fn, torch.float8_e5m2)]
lines = ["# code, value in e4m3 and in e5m2, as torch decodes them; written by float8.py"]
lines += [f"{code:02x} {e4m3!r} {e5m2!r}" for code, e4m3, e5m2 in zip(codes.tolist(), *formats)]
pathlib.Path(__file__).with_suffix(".txt").write_text("\n".join(lines) + "\n")
