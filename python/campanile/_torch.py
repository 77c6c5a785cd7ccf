"""A trained model as a plain ``torch.nn.Module``: the list of blocks that training carries out, block by block."""

from __future__ import annotations

from typing import Any, Callable, Dict, List

try:
    import torch
except ImportError as error:
    raise ImportError("to_torch needs PyTorch, which is not installed: pip install torch") from error


def network(model: Dict[str, Any], tensor: Callable[[str], Any], trains: Dict[str, Dict[str, Any]]) -> "Network":
    """The network of a described model, with parameters that ``tensor`` gives by name, and the shapes of its tensor trains by feature."""
    return Network(model, tensor, trains)


class Network(torch.nn.Module):
    """Tables, towers and blocks of a model. Called with a dict of tensors by the names of the model's inputs (``dense``,
    ``rows.FEATURE``, ``weights.FEATURE``), it returns probabilities: one for each sample, or one for each sample and label."""

    def __init__(self, model: Dict[str, Any], tensor: Callable[[str], Any], trains: Dict[str, Dict[str, Any]]) -> None:
        super().__init__()
        self._features = model["features"]
        self._towers = model["towers"]
        self._network = model["network"]
        self._labels = len(model.get("labels", []))
        take = lambda name: torch.nn.Parameter(torch.from_numpy(tensor(name).copy()))  # noqa: E731
        self._trains = trains
        with_rows = [feature["name"] for feature in self._features if feature["name"] not in trains]
        self._places = {name: place for place, name in enumerate(with_rows)}
        self.tables = torch.nn.ParameterList([take(f"tables.{name}.weight") for name in with_rows])
        # A point is no part of a parameter's name in PyTorch.
        cores = [f"tables.{name}.core.{core}" for name in trains for core in range(3)]
        self.cores = torch.nn.ParameterDict({name.replace(".", "/"): take(name) for name in cores})
        self.dense = torch.nn.ParameterDict({name.replace(".", "/"): take(name) for name in self._names()})

    def _names(self) -> List[str]:
        """Names of the dense parameters, in forward order."""
        names: List[str] = []
        for block in self._network["blocks"]:
            kind, layers = next(iter(block["layers"].items()))
            if kind == "mlp":
                names += [name for layer in layers for name in _of_linear(layer)]
            elif kind == "cross":
                names += [name for layer in layers["layers"] for name in _of_cross(layer)]
            elif kind == "project":
                names += [name for part in layers if "mapped" in part for name in _of_linear(part["mapped"])]
        for tower in self._towers:
            if tower["module"] == "PassThrough":
                continue
            kind, module = next(iter(tower["module"].items()))
            if kind == "Projection":
                maps = ([module["all"]] if module["all"] else []) + module["each"]
                names += [name for layer in maps for name in _of_linear(layer)]
            else:
                names += _of_cross(module["layer"]) + (_of_linear(module["map"]) if module["map"] else [])
        return names

    def _parameter(self, name: str) -> torch.Tensor:
        return self.dense[name.replace(".", "/")]

    def forward(self, inputs: Dict[str, torch.Tensor]) -> torch.Tensor:
        vectors = [self._pooled(feature, inputs) for feature in self._features]
        if any(tower["module"] != "PassThrough" for tower in self._towers):
            vectors = [self._tower(tower, vectors) for tower in self._towers]
        sparse = torch.cat(vectors, dim=1)
        columns = [at for range_ in self._network["vectors"] for at in range(range_["start"], range_["end"])]
        known = {"dense": inputs.get("dense"), "rows": sparse, "vectors": sparse}
        if columns != list(range(sparse.shape[1])):
            known["vectors"] = sparse[:, columns]
        done: Dict[str, torch.Tensor] = {}
        out = sparse
        for block in self._network["blocks"]:
            parts = [known[one] if isinstance(one, str) else done[one["block"]] for one in block["inputs"]]
            kind, layers = next(iter(block["layers"].items()))
            if kind == "sum":
                out = torch.stack(parts).sum(dim=0)
            else:
                out = self._block(kind, layers, torch.cat(parts, dim=1))
            done[block["name"]] = out
        probabilities = torch.sigmoid(out)
        return probabilities if self._labels > 1 else probabilities.reshape(-1)

    def _rows(self, feature: str, rows: torch.Tensor) -> torch.Tensor:
        """Rows of a table by their numbers: as they are stored, or multiplied out of the cores of a tensor train."""
        if feature not in self._trains:
            return self.tables[self._places[feature]][rows]
        train = self._trains[feature]
        (_, j, k), (a, b, c), rank = train["rows"], train["columns"], train["rank"]
        flat = rows.reshape(-1)
        digits = [flat // (j * k), flat // k % j, flat % k]
        first, second, third = (self.cores[f"tables/{feature}/core/{core}".replace(".", "/")][digits[core]] for core in range(3))
        joined = (first.reshape(-1, a, rank) @ second.reshape(-1, rank, b * rank)).reshape(-1, a * b, rank)
        found = (joined @ third.reshape(-1, c, rank).transpose(1, 2)).reshape(-1, a * b * c)[:, : train["width"]]
        return found.reshape(*rows.shape, train["width"])

    def _pooled(self, feature: Dict[str, Any], inputs: Dict[str, torch.Tensor]) -> torch.Tensor:
        """The vector of each sample: a row of the table, or the rows of a bag."""
        rows = inputs[f"rows.{feature['name']}"]
        weights = inputs.get(f"weights.{feature['name']}")
        if feature["hotness"] == "one":
            found = self._rows(feature["name"], rows)
            return found if weights is None else found * weights.reshape(-1, 1)
        present = (rows >= 0).to(torch.float32)
        factors = present if weights is None else present * weights
        pooled = (self._rows(feature["name"], rows.clamp(min=0)) * factors.unsqueeze(2)).sum(dim=1)
        if feature["pooling"] == "mean":
            pooled = pooled / present.sum(dim=1, keepdim=True).clamp(min=1)
        return pooled

    def _tower(self, tower: Dict[str, Any], vectors: List[torch.Tensor]) -> torch.Tensor:
        """Output of a tower: its members side by side, through its module."""
        members = [vectors[one["feature"]][:, one["columns"]["start"] : one["columns"]["end"]] for one in tower["members"]]
        joined = torch.cat(members, dim=1)
        if tower["module"] == "PassThrough":
            return joined
        kind, module = next(iter(tower["module"].items()))
        if kind == "Cross":
            crossed = self._cross(module["layer"], joined, joined)
            return self._linear(module["map"], crossed) if module["map"] else crossed
        parts = [self._linear(module["all"], joined)] if module["all"] else []
        for member in members if module["each"] else []:
            layer = next(layer for layer in module["each"] if layer["inputs"] == member.shape[1])
            parts.append(self._linear(layer, member))
        return torch.cat(parts, dim=1)

    def _block(self, kind: str, layers: Any, x: torch.Tensor) -> torch.Tensor:
        if kind == "mlp":
            for layer in layers:
                x = self._linear(layer, x)
            return x
        if kind == "cross":
            first = x
            for layer in layers["layers"]:
                x = self._cross(layer, first, x)
            return x
        if kind == "project":
            parts, start = [], 0
            for part in layers:
                width = part["unchanged"] if "unchanged" in part else part["mapped"]["inputs"]
                here, start = x[:, start : start + width], start + width
                parts.append(here if "unchanged" in part else self._linear(part["mapped"], here))
            return torch.cat(parts, dim=1)
        vectors, dim = layers["vectors"], layers["dim"]
        if kind == "dot":
            v = x.reshape(-1, vectors, dim)
            below = torch.tril_indices(vectors, vectors, offset=-1, device=x.device)
            return torch.cat([x[:, :dim], torch.bmm(v, v.transpose(1, 2))[:, below[0], below[1]]], dim=1)
        if kind == "fm":
            rows = x.reshape(-1, vectors, dim + 1)
            v, w = rows[:, :, :dim], rows[:, :, dim]
            pairs = 0.5 * (v.sum(dim=1).square() - v.square().sum(dim=1)).sum(dim=1)
            return (w.sum(dim=1) + pairs).reshape(-1, 1)
        raise ValueError(f"this version of the package knows no block of kind {kind}")

    def _linear(self, layer: Dict[str, Any], x: torch.Tensor) -> torch.Tensor:
        bias = self._parameter(f"{layer['name']}.bias") if layer["bias"] else None
        y = torch.nn.functional.linear(x, self._parameter(f"{layer['name']}.weight"), bias)
        return torch.relu(y) if layer["activation"].lower() == "relu" else y

    def _cross(self, layer: Dict[str, Any], first: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        low = x if layer["v"] is None else torch.nn.functional.linear(x, self._parameter(layer["v"]["name"]))
        z = torch.nn.functional.linear(low, self._parameter(layer["w"]["name"]), self._parameter(layer["bias"]))
        return first * z + x


def _of_linear(layer: Dict[str, Any]) -> List[str]:
    return [f"{layer['name']}.weight"] + ([f"{layer['name']}.bias"] if layer["bias"] else [])


def _of_cross(layer: Dict[str, Any]) -> List[str]:
    return ([layer["v"]["name"]] if layer["v"] else []) + [layer["w"]["name"], layer["bias"]]
