"""Golden training runs: what PyTorch makes of small models, for `training` to reproduce.

Run from this folder, with PyTorch 2.x and numpy (scripts/compare-torch makes such an environment):

    python make.py

It writes dlrm.json, dcn.json, dcn-full.json, deepfm.json, dmt-dlrm.json and dmt-dcn.json, or only those of the models that
are named as arguments: one case per optimizer, with the loss of each of 20 steps and the first 8 values (DeepFM: 18, two rows
of a table) of every parameter after the last. Parameters and data come from `spec::random`, mirrored below, so that both sides
start from the same bits. Arithmetic is f32 on the CPU, one thread.

DeepFM is Guo et al., 2017, with the linear weight of an id as the last column of its row. The dmt models are DLRM and DCN over
the tower modules of DMT (Luo et al., 2024), §4. regularised.json has weight decay, clipped gradients, smoothed labels and
dropout; its masks are those of `spec::random`, mirrored below.
"""

import json
import math
import re
import sys

import numpy as np
import torch
from torch import nn

SEED = 7
ROWS = {"C1": 50, "C2": 20, "C3": 100, "C4": 7}
MULTI_HOT = {"C3": 5, "C4": 5}  # lengths are bits % 5: 0 to 4 ids
DIM, DENSE, BATCH, STEPS, RANK = 8, 5, 64, 20, 4
SAMPLES = BATCH * STEPS
TOWERS = [["C3", "C1", "C4"], ["C2"]]
TOWER_DIM = {"dmt-dlrm": 4, "dmt-dcn": 6}
MASK = (1 << 64) - 1


# spec::random ---------------------------------------------------------------------------------------------------------


def mix(z):
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


class Stream:
    def __init__(self, seed, name):
        fnv = 0xCBF29CE484222325
        for byte in name.encode():
            fnv = ((fnv ^ byte) * 0x0100000001B3) & MASK
        # Arrays, because numpy wraps around silently in arrays and warns about scalars.
        self.key = mix(np.array([seed], np.uint64) ^ mix(np.array([fnv], np.uint64)))

    def bits(self, index):
        return mix(self.key + np.asarray(index, np.uint64) * np.uint64(0x9E3779B97F4A7C15))

    def unit(self, index):
        return (self.bits(index) >> np.uint64(40)).astype(np.float32) * np.float32(1 / 16777216)

    def symmetric(self, index, bound):
        return (self.unit(index) * np.float32(2) - np.float32(1)) * np.float32(bound)


# Parameters -----------------------------------------------------------------------------------------------------------


def uniform(name, shape, bound):
    values = Stream(SEED, name).symmetric(np.arange(math.prod(shape)), bound)
    return nn.Parameter(torch.from_numpy(values.reshape(shape)))


def root(numerator, denominator):
    """√(numerator / denominator) in f32, as Rust computes it."""
    return np.sqrt(np.float32(numerator) / np.float32(denominator), dtype=np.float32)


def weight(name, inputs, outputs):
    return uniform(name, (outputs, inputs), root(6, inputs + outputs))


def bias(name, inputs, outputs):
    return uniform(name, (outputs,), np.float32(1) / np.sqrt(np.float32(inputs)))


def kept(name, first, samples, units, dropout):
    """The mask of a layer's outputs, scaled: a unit is dropped where its word lies below dropout · 2³²."""
    rows = Stream(SEED, f"dropout.{name}").bits(np.arange(first, first + samples))[:, None]
    low, high = rows.astype(np.uint32), (rows >> np.uint64(32)).astype(np.uint32)
    x = low + np.arange(units, dtype=np.uint32) * np.uint32(0x9E3779B9)
    x = ((x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)) ^ high
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)
    x ^= x >> np.uint32(16)
    scale = np.float32(1) / (np.float32(1) - np.float32(dropout))
    return torch.from_numpy(np.where(x < np.uint32(float(np.float32(dropout)) * 2**32), np.float32(0), scale))


class Linear(nn.Linear):
    """nn.Linear at the initial weights of `name`."""

    def __init__(self, name, in_features, out_features):
        super().__init__(in_features, out_features)
        self.weight = weight(f"{name}.weight", in_features, out_features)
        self.bias = bias(f"{name}.bias", in_features, out_features)


class DlrmTower(nn.Module):
    """DMT, listing 1, with c = p = 1."""

    def __init__(self, name, features, d, c=1, p=1):
        super().__init__()
        self.all = Linear(f"{name}.all", DIM * features, p * d)
        self.each = Linear(f"{name}.each", DIM, c * d)

    def forward(self, embs):
        batch, _, _ = embs.shape
        o1 = self.all(embs.reshape(batch, -1)).view(batch, -1)
        o2 = self.each(embs).view(batch, -1)
        return torch.cat([o1, o2], dim=1)


class CrossLayer(nn.Module):
    """x₀ ⊙ (W·V·x + b) + x, of which a tower has one: x is x₀."""

    def __init__(self, name, width):
        super().__init__()
        self.v = weight(f"{name}.v", width, RANK)
        self.w = weight(f"{name}.w", RANK, width)
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return x * (x @ self.v.T @ self.w.T + self.bias) + x


class DcnTower(nn.Module):
    """DMT, listing 2, with one vector of D for the tower."""

    def __init__(self, name, features, d):
        super().__init__()
        self.cross = CrossLayer(f"{name}.cross", features * DIM)
        self.map = Linear(f"{name}.map", features * DIM, d)

    def forward(self, embs):
        return self.map(self.cross(embs.flatten(1)))


def towers(model):
    """The towers of a dmt model, named as their parameters are."""
    tower = {"dmt-dlrm": DlrmTower, "dmt-dcn": DcnTower}.get(model)
    if tower is None:
        return {}
    names = [f"towers.{t}" for t in range(len(TOWERS))]
    return {name: tower(name, len(features), TOWER_DIM[model]) for name, features in zip(names, TOWERS)}


def tables(columns):
    """The tables by name, of rows with this many columns."""
    bound = {name: np.float32(1) / np.sqrt(np.float32(rows)) for name, rows in ROWS.items()}
    return {f"table.{name}": uniform(f"table.{name}", (rows, columns), bound[name]) for name, rows in ROWS.items()}


def build(model):
    """All parameters by name, and the towers that some of them belong to."""
    params, modules = {}, towers(model)

    def mlp(prefix, sizes):
        for i, (inputs, outputs) in enumerate(zip(sizes, sizes[1:])):
            params[f"{prefix}.{i}.weight"] = weight(f"{prefix}.{i}.weight", inputs, outputs)
            params[f"{prefix}.{i}.bias"] = bias(f"{prefix}.{i}.bias", inputs, outputs)

    if model == "deepfm":
        mlp("linear", [DENSE, 1])
        mlp("deep", [len(ROWS) * DIM + DENSE, 16, 1])
        return params | tables(DIM + 1), modules

    # The dense vector, and what comes from the tables. Dot products need vectors of one length.
    dim = TOWER_DIM["dmt-dlrm"] if model == "dmt-dlrm" else DIM
    vectors = 1 + len(ROWS) + (len(TOWERS) if model == "dmt-dlrm" else 0)
    width = DIM + len(TOWERS) * TOWER_DIM["dmt-dcn"] if model == "dmt-dcn" else vectors * dim
    mlp("bottom", [DENSE, 16, dim])
    if "dlrm" in model:
        mlp("top", [dim + vectors * (vectors - 1) // 2, 16, 1])
    else:
        for layer in range(2):
            rank = width if model == "dcn-full" else RANK
            if model != "dcn-full":
                params[f"cross.{layer}.v"] = weight(f"cross.{layer}.v", width, RANK)
            params[f"cross.{layer}.w"] = weight(f"cross.{layer}.w", rank, width)
            params[f"cross.{layer}.bias"] = nn.Parameter(torch.zeros(width))
        mlp("top", [width, 16, 1])
    for prefix, tower in modules.items():
        params |= {f"{prefix}.{name}": param for name, param in tower.named_parameters()}
    return params | tables(DIM), modules


# Data -----------------------------------------------------------------------------------------------------------------


def data():
    """Dense values, labels, and for each feature the bags (ids, weights) of all samples."""
    i = np.arange(SAMPLES)
    dense = Stream(SEED, "golden.dense").unit(np.arange(SAMPLES * DENSE)).reshape(SAMPLES, DENSE)
    label = (Stream(SEED, "golden.label").unit(i) < np.float32(0.3)).astype(np.float32)
    bags = {}
    for name, rows in ROWS.items():
        index = i[:, None] * 8 + np.arange(8)
        ids = (Stream(SEED, f"golden.id.{name}").bits(index) % np.uint64(rows)).astype(np.int64)
        weights = Stream(SEED, f"golden.weight.{name}").unit(index)
        if name in MULTI_HOT:
            length = (Stream(SEED, f"golden.length.{name}").bits(i) % np.uint64(MULTI_HOT[name])).astype(int)
        else:
            length = np.ones(SAMPLES, int)
        bags[name] = [(ids[s, : length[s]], weights[s, : length[s]]) for s in range(SAMPLES)]
    return torch.from_numpy(dense), torch.from_numpy(label), bags


def pooled(params, name, bags):
    ids = torch.from_numpy(np.concatenate([ids for ids, _ in bags]))
    offsets = torch.from_numpy(np.cumsum([0] + [len(ids) for ids, _ in bags])[:-1])
    weights = torch.from_numpy(np.concatenate([weights for _, weights in bags])) if name == "C4" else None
    mode = "mean" if name == "C3" else "sum"
    return nn.functional.embedding_bag(
        ids, params[f"table.{name}"], offsets, mode=mode, sparse=True, per_sample_weights=weights
    )


# Models ---------------------------------------------------------------------------------------------------------------


def linear(params, name, x):
    return nn.functional.linear(x, params[f"{name}.weight"], params[f"{name}.bias"])


def hidden(params, name, x, dropout, first):
    """A hidden layer of an MLP: ReLU, then dropout."""
    y = torch.relu(linear(params, name, x))
    return y * kept(name, first, *y.shape, dropout) if dropout else y


def deepfm(params, dense, rows, dropout, position):
    """Linear term + FM of second order + MLP over all vectors and the dense inputs, of rows [samples, features, DIM + 1]."""
    vectors, weights = rows[..., :DIM], rows[..., DIM]
    first_order = linear(params, "linear.0", dense).squeeze(1) + weights.sum(1)
    pairs = 0.5 * (vectors.sum(1).square() - vectors.square().sum(1)).sum(1)
    h = hidden(params, "deep.0", torch.cat([vectors.flatten(1), dense], 1), dropout, position)
    return first_order + pairs + linear(params, "deep.1", h).squeeze(1)


def logits(model, params, modules, dense, bags, dropout, position):
    if model == "deepfm":
        rows = torch.stack([pooled(params, name, bags[name]) for name in ROWS], 1)
        return deepfm(params, dense, rows, dropout, position)
    x = torch.relu(linear(params, "bottom.1", hidden(params, "bottom.0", dense, dropout, position)))
    embs = {name: pooled(params, name, bags[name]) for name in ROWS}
    if modules:
        # The dense vector, then the towers in their order.
        inputs = [torch.stack([embs[name] for name in features], 1) for features in TOWERS]
        sparse = [tower(x) for tower, x in zip(modules.values(), inputs)]
    else:
        sparse = list(embs.values())
    h = torch.cat([x] + sparse, 1)
    if "dlrm" in model:
        vectors = h.view(len(x), -1, x.shape[1])
        products = vectors @ vectors.transpose(1, 2)
        i, j = torch.tril_indices(vectors.shape[1], vectors.shape[1], -1)
        h = torch.cat([x, products[:, i, j]], 1)
    else:
        x0 = h
        for layer in range(2):
            z = h if model == "dcn-full" else h @ params[f"cross.{layer}.v"].T
            h = x0 * (z @ params[f"cross.{layer}.w"].T + params[f"cross.{layer}.bias"]) + h
    return linear(params, "top.1", hidden(params, "top.0", h, dropout, position)).squeeze(1)


# Optimizers -----------------------------------------------------------------------------------------------------------


class RowWiseAdagrad:
    """h_row += mean(g²); w −= lr·g / (√h_row + ε), on the rows that the step touched."""

    def __init__(self, tables, lr, eps):
        self.tables, self.lr, self.eps = tables, lr, eps
        self.states = [torch.zeros(table.shape[0]) for table in tables]

    def zero_grad(self):
        for table in self.tables:
            table.grad = None

    @torch.no_grad()
    def step(self):
        for table, state in zip(self.tables, self.states):
            grad = table.grad.coalesce()
            rows, values = grad.indices()[0], grad.values()
            state[rows] += values.square().mean(1)
            table[rows] -= self.lr * values / (state[rows].sqrt() + self.eps).unsqueeze(1)


class Lamb:
    """LAMB (You et al., 2020) as written there, φ the identity: PyTorch has none. The trust ratio is that of a tensor in dense
    layers, and of a row in tables, where only the rows that the step touched are updated."""

    def __init__(self, params, rows, lr, betas, eps, weight_decay=0.0):
        self.params, self.rows, self.lr, self.betas, self.eps, self.decay = params, rows, lr, betas, eps, weight_decay
        self.moments = [(torch.zeros_like(param), torch.zeros_like(param)) for param in params]
        self.steps = 0

    def zero_grad(self):
        for param in self.params:
            param.grad = None

    @torch.no_grad()
    def step(self):
        self.steps += 1
        beta1, beta2 = self.betas
        for param, (m, v) in zip(self.params, self.moments):
            if self.rows:
                grad = param.grad.coalesce()
                at, g = grad.indices()[0], grad.values()
            else:
                at, g = ..., param.grad
            m[at] = beta1 * m[at] + (1 - beta1) * g
            v[at] = beta2 * v[at] + (1 - beta2) * g.square()
            m_hat, v_hat = m[at] / (1 - beta1**self.steps), v[at] / (1 - beta2**self.steps)
            update = m_hat / (v_hat.sqrt() + self.eps) + self.decay * param[at]
            norms = [x.norm(dim=1, keepdim=True) if self.rows else x.norm() for x in (param[at], update)]
            ratio = torch.where((norms[0] > 0) & (norms[1] > 0), norms[0] / norms[1], 1.0)
            param[at] -= self.lr * ratio * update


def optimizers(rule, dense, tables):
    adagrad = dict(lr=0.05, eps=1e-8)
    adam = dict(lr=0.01, betas=(0.9, 0.999), eps=1e-8)
    lamb = dict(lr=0.02, betas=(0.9, 0.999), eps=1e-6)
    return {
        "sgd": lambda: [torch.optim.SGD(dense, lr=0.1), torch.optim.SGD(tables, lr=0.1)],
        "adagrad": lambda: [torch.optim.Adagrad(dense, **adagrad), torch.optim.Adagrad(tables, **adagrad)],
        "row-wise-adagrad": lambda: [torch.optim.Adagrad(dense, **adagrad), RowWiseAdagrad(tables, **adagrad)],
        "adam": lambda: [torch.optim.Adam(dense, **adam), torch.optim.SparseAdam(tables, **adam)],
        "adamw": lambda: [
            torch.optim.AdamW(dense, weight_decay=0.01, **adam),
            torch.optim.SparseAdam(tables, **adam),
        ],
        "lamb": lambda: [Lamb(dense, False, weight_decay=0.01, **lamb), Lamb(tables, True, **lamb)],
    }[rule]()


RATES = {"sgd": 0.1, "adagrad": 0.05, "row-wise-adagrad": 0.05, "adam": 0.01}


def clip(dense, tables, options):
    """Elements first, those of tables in the sum of a row's gradients; then the norm of all dense gradients."""
    if "clip_value" in options:
        nn.utils.clip_grad_value_(dense, options["clip_value"])
        for table in tables:
            grad = table.grad.coalesce()
            values = grad.values().clamp(-options["clip_value"], options["clip_value"])
            table.grad = torch.sparse_coo_tensor(grad.indices(), values, grad.shape).coalesce()
    if "clip_norm" in options:
        nn.utils.clip_grad_norm_(dense, options["clip_norm"])


@torch.no_grad()
def decay(dense, tables, options, rate):
    """Decoupled weight decay before the rule, in tables for the rows that the step touched."""
    for param in dense:
        param.mul_(1 - rate * options.get("weight_decay", 0))
    for table in tables:
        rows = table.grad.coalesce().indices()[0]
        table[rows] *= 1 - rate * options.get("table_weight_decay", 0)


def case(model, rule, options={}):
    params, modules = build(model)
    tables = [param for name, param in params.items() if name.startswith("table.")]
    dense_params = [param for name, param in params.items() if not name.startswith("table.")]
    rules = optimizers(rule, dense_params, tables)
    dense, label, bags = data()
    losses = []
    for step in range(STEPS):
        part = slice(step * BATCH, (step + 1) * BATCH)
        of_step = {name: bags[name][part] for name in ROWS}
        output = logits(model, params, modules, dense[part], of_step, options.get("dropout", 0), step * BATCH)
        smoothing = options.get("label_smoothing", 0)
        target = label[part] * (1 - smoothing) + smoothing / 2
        loss = nn.functional.binary_cross_entropy_with_logits(output, target)
        for optimizer in rules:
            optimizer.zero_grad()
        loss.backward()
        if options:
            clip(dense_params, tables, options)
            decay(dense_params, tables, options, RATES[rule])
        for optimizer in rules:
            optimizer.step()
        losses.append(loss.item())
    # Of DeepFM two rows of a table, with their linear weights.
    first = 2 * (DIM + 1) if model == "deepfm" else 8
    final = {name: param.detach().flatten()[:first].tolist() for name, param in params.items()}
    told = {"options": options} if options else {}
    return {"model": model, "optimizer": rule, **told, "losses": losses, "final": final}


# Regularisation: model, optimizer and options, which are strong enough to matter within twenty steps.
REGULARISED = [
    ("dlrm", "sgd", {"weight_decay": 0.5, "table_weight_decay": 0.3}),
    ("dlrm", "adagrad", {"weight_decay": 0.5, "table_weight_decay": 0.3}),
    ("dlrm", "row-wise-adagrad", {"table_weight_decay": 0.3}),
    ("dmt-dlrm", "adam", {"weight_decay": 0.5, "table_weight_decay": 0.3}),
    ("dlrm", "sgd", {"label_smoothing": 0.2}),
    ("dlrm", "sgd", {"clip_value": 0.002}),
    ("dlrm", "sgd", {"clip_norm": 0.05}),
    ("dmt-dlrm", "sgd", {"clip_norm": 0.05}),
    ("dmt-dcn", "adam", {"clip_value": 0.01, "clip_norm": 0.05}),
    ("dlrm", "sgd", {"dropout": 0.5}),
    ("deepfm", "adam", {"dropout": 0.3}),
    (
        "dmt-dlrm",
        "adagrad",
        {
            "weight_decay": 0.1,
            "table_weight_decay": 0.1,
            "label_smoothing": 0.1,
            "clip_value": 0.02,
            "clip_norm": 0.1,
            "dropout": 0.2,
        },
    ),
]


def main():
    torch.set_num_threads(1)
    usual = ["dlrm", "dcn", "dcn-full", "deepfm", "dmt-dlrm", "dmt-dcn", "regularised"]
    for model in sys.argv[1:] or usual:
        if model == "regularised":
            write(model, [case(*args) for args in REGULARISED])
            continue
        rules = ["sgd", "adagrad", "row-wise-adagrad", "adam", "adamw", "lamb"]
        if model.startswith("dmt"):
            rules = ["sgd", "adam", "lamb"]
        write(model, [case(model, rule) for rule in rules])


def write(name, cases):
    with open(f"{name}.json", "w") as file:
        # One parameter a line: a person can read the difference between two of these.
        file.write(compact(json.dumps({"seed": SEED, "cases": cases}, indent=1)) + "\n")


def compact(text):
    """Puts every innermost list on one line."""
    return re.sub(r"\[[^\[\]{}]*\]", lambda match: "".join(match[0].split()).replace(",", ", "), text)


if __name__ == "__main__":
    main()
