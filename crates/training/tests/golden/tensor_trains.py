"""Makes tensor_trains.json: models with tables that are tensor trains, in PyTorch.

    python tensor_trains.py

Data, initial weights and optimizers are those of make.py. The tables of C1, C3 (a mean) and C4 (weighted) are products of three cores:
PyTorch multiplies the whole table out, so that its gradients are those of the products.
"""

import math

import numpy as np
import torch
from torch import nn

import make

RANK = 3
TRAINS = ["C1", "C3", "C4"]
CASES = [(model, rule) for model in ["dlrm", "dcn", "deepfm", "dmt-dlrm"] for rule in ["sgd", "adagrad", "adam"]]
pooled_rows = make.pooled


def digits_of_rows(rows):
    first = next(n for n in range(1, rows + 1) if n**3 >= rows)
    rest = -(-rows // first)
    second = next(n for n in range(1, rest + 1) if n**2 >= rest)
    return first, second, -(-rest // second)


# Columns of rows: vectors of 8, and 9 where DeepFM has a linear weight behind them, which leaves three columns over.
DIGITS_OF_COLUMNS = {8: (2, 2, 2), 9: (2, 2, 3)}


def cores(name, columns):
    """The cores of a table by name: digit, then columns₀ × rank, rank × columns₁ × rank, columns₂ × rank."""
    rows = make.ROWS[name]
    (i, j, k), (a, b, c) = digits_of_rows(rows), DIGITS_OF_COLUMNS[columns]
    bound = np.float32(math.sqrt(3 * np.cbrt(1 / (3 * rows) / (RANK * RANK))))
    shapes = [(i, a, RANK), (j, RANK, b, RANK), (k, c, RANK)]
    names = [f"tables.{name}.core.{core}" for core in range(3)]
    return {core: make.uniform(core, shape, bound) for core, shape in zip(names, shapes)}


def build(model):
    params, modules = make.build(model)
    for name in TRAINS:
        columns = params.pop(f"table.{name}").shape[1]
        params |= cores(name, columns)
    return params, modules


def pooled(params, name, bags):
    if name not in TRAINS:
        return pooled_rows(params, name, bags)
    x, y, z = (params[f"tables.{name}.core.{core}"] for core in range(3))
    table = torch.einsum("iar,jrbs,kcs->ijkabc", x, y, z)
    columns = 9 if params.get("deep.0.weight") is not None else 8
    table = table.reshape(math.prod(table.shape[:3]), -1)[:, :columns]
    ids = torch.from_numpy(np.concatenate([ids for ids, _ in bags]))
    offsets = torch.from_numpy(np.cumsum([0] + [len(ids) for ids, _ in bags])[:-1])
    weights = torch.from_numpy(np.concatenate([weights for _, weights in bags])) if name == "C4" else None
    mode = "mean" if name == "C3" else "sum"
    return nn.functional.embedding_bag(ids, table, offsets, mode=mode, per_sample_weights=weights)


def case(model, rule):
    params, modules = build(model)
    tables = [param for name, param in params.items() if name.startswith("table.")]
    dense_params = [param for name, param in params.items() if not name.startswith("table.")]
    rules = make.optimizers(rule, dense_params, tables)
    dense, label, bags = make.data()
    losses = []
    for step in range(make.STEPS):
        part = slice(step * make.BATCH, (step + 1) * make.BATCH)
        of_step = {name: bags[name][part] for name in make.ROWS}
        output = make.logits(model, params, modules, dense[part], of_step, 0, step * make.BATCH)
        loss = nn.functional.binary_cross_entropy_with_logits(output, label[part])
        for optimizer in rules:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in rules:
            optimizer.step()
        losses.append(loss.item())
    final = {name: param.detach().flatten()[:32].tolist() for name, param in params.items()}
    return {"model": f"trains-{model}", "optimizer": rule, "losses": losses, "final": final}


if __name__ == "__main__":
    torch.set_num_threads(1)
    make.pooled = pooled
    make.write("tensor_trains", [case(*args) for args in CASES])
