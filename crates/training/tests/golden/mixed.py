"""Makes mixed.json: models whose tables have vectors of several lengths, in PyTorch.

    python mixed.py

Data, initial weights and optimizers are those of make.py. DLRM maps vectors of other lengths than 8 to 8 by one linear map
without bias for each table, as the PrEmbeddingBag of Facebook's DLRM does (Ginart et al., 2021); DeepFM does so for its
factorization machine, and its MLP sees the vectors as they are; DCN concatenates. In the towers of DMT's listing 1, members of
one length share a map.
"""

import torch
from torch import nn

import make

DIMS = {"C1": 4, "C2": 8, "C3": 12, "C4": 4}
N = make.DIM
TOWERS, D = make.TOWERS, 4

CASES = [(model, rule) for model in ["dlrm", "dcn", "deepfm", "dmt-dlrm"] for rule in ["sgd", "row-wise-adagrad", "adam"]]


def build(model):
    """All parameters by name."""
    params = {}

    def mlp(prefix, sizes):
        for i, (inputs, outputs) in enumerate(zip(sizes, sizes[1:])):
            params[f"{prefix}.{i}.weight"] = make.weight(f"{prefix}.{i}.weight", inputs, outputs)
            params[f"{prefix}.{i}.bias"] = make.bias(f"{prefix}.{i}.bias", inputs, outputs)

    def matrix(name, inputs, outputs):
        params[name] = make.weight(name, inputs, outputs)

    columns = sum(DIMS.values())
    if model == "deepfm":
        mlp("linear", [make.DENSE, 1])
        mlp("deep", [columns + make.DENSE, 16, 1])
    elif model == "dcn":
        mlp("bottom", [make.DENSE, 16, N])
        for layer in range(2):
            matrix(f"cross.{layer}.v", N + columns, make.RANK)
            matrix(f"cross.{layer}.w", make.RANK, N + columns)
            params[f"cross.{layer}.bias"] = nn.Parameter(torch.zeros(N + columns))
        mlp("top", [N + columns, 16, 1])
    else:
        dim = D if model == "dmt-dlrm" else N
        vectors = 1 + len(DIMS) + (len(TOWERS) if model == "dmt-dlrm" else 0)
        mlp("bottom", [make.DENSE, 16, dim])
        mlp("top", [dim + vectors * (vectors - 1) // 2, 16, 1])
    if model in ["dlrm", "deepfm"]:
        for name, dim in DIMS.items():
            if dim != N:
                matrix(f"project.{name}.weight", dim, N)
    if model == "dmt-dlrm":
        for t, members in enumerate(TOWERS):
            widths = sorted({DIMS[name] for name in members})
            maps = {"all": (sum(DIMS[name] for name in members), D)}
            maps |= {"each" if len(widths) == 1 else f"each.{width}": (width, D) for width in widths}
            for part, (inputs, outputs) in maps.items():
                matrix(f"towers.{t}.{part}.weight", inputs, outputs)
                params[f"towers.{t}.{part}.bias"] = make.bias(f"towers.{t}.{part}.bias", inputs, outputs)
    for name, rows in make.ROWS.items():
        bound = 1 / torch.tensor(float(rows)).sqrt().item()
        columns = DIMS[name] + (model == "deepfm")
        params[f"table.{name}"] = make.uniform(f"table.{name}", (rows, columns), bound)
    return params


def projected(params, name, vector):
    """The vector of a feature at the length N."""
    return vector if DIMS[name] == N else nn.functional.linear(vector, params[f"project.{name}.weight"])


def tower(params, t, embs):
    """DMT, listing 1, with c = p = 1."""
    members = TOWERS[t]
    of_all = make.linear(params, f"towers.{t}.all", torch.cat([embs[name] for name in members], 1))
    alike = len({DIMS[name] for name in members}) == 1
    part = lambda name: f"towers.{t}.each" if alike else f"towers.{t}.each.{DIMS[name]}"
    return torch.cat([of_all] + [make.linear(params, part(name), embs[name]) for name in members], 1)


def logits(model, params, dense, bags):
    embs = {name: make.pooled(params, name, bags[name]) for name in DIMS}
    if model == "deepfm":
        vectors = {name: row[:, :-1] for name, row in embs.items()}
        first_order = make.linear(params, "linear.0", dense).squeeze(1) + sum(row[:, -1] for row in embs.values())
        meeting = torch.stack([projected(params, name, vector) for name, vector in vectors.items()], 1)
        pairs = 0.5 * (meeting.sum(1).square() - meeting.square().sum(1)).sum(1)
        h = torch.relu(make.linear(params, "deep.0", torch.cat([*vectors.values(), dense], 1)))
        return first_order + pairs + make.linear(params, "deep.1", h).squeeze(1)
    x = torch.relu(make.linear(params, "bottom.1", torch.relu(make.linear(params, "bottom.0", dense))))
    if model == "dcn":
        x0 = h = torch.cat([x, *embs.values()], 1)
        for layer in range(2):
            z = h @ params[f"cross.{layer}.v"].T
            h = x0 * (z @ params[f"cross.{layer}.w"].T + params[f"cross.{layer}.bias"]) + h
    else:
        if model == "dmt-dlrm":
            sparse = [tower(params, t, embs) for t in range(len(TOWERS))]
        else:
            sparse = [projected(params, name, vector) for name, vector in embs.items()]
        vectors = torch.cat([x, *sparse], 1).view(len(x), -1, x.shape[1])
        products = vectors @ vectors.transpose(1, 2)
        i, j = torch.tril_indices(vectors.shape[1], vectors.shape[1], -1)
        h = torch.cat([x, products[:, i, j]], 1)
    return make.linear(params, "top.1", torch.relu(make.linear(params, "top.0", h))).squeeze(1)


def case(model, rule):
    params = build(model)
    tables = [param for name, param in params.items() if name.startswith("table.")]
    dense_params = [param for name, param in params.items() if not name.startswith("table.")]
    rules = make.optimizers(rule, dense_params, tables)
    dense, label, bags = make.data()
    losses = []
    for step in range(make.STEPS):
        part = slice(step * make.BATCH, (step + 1) * make.BATCH)
        of_step = {name: bags[name][part] for name in make.ROWS}
        output = logits(model, params, dense[part], of_step)
        loss = nn.functional.binary_cross_entropy_with_logits(output, label[part])
        for optimizer in rules:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in rules:
            optimizer.step()
        losses.append(loss.item())
    # All of a map, and more than a row of a table.
    final = {name: param.detach().flatten()[:32].tolist() for name, param in params.items()}
    return {"model": f"mixed-{model}", "optimizer": rule, "losses": losses, "final": final}


if __name__ == "__main__":
    torch.set_num_threads(1)
    make.write("mixed", [case(*args) for args in CASES])
