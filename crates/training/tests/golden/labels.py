"""Makes labels.json: sample weights, a weight of clicks, and two labels, in PyTorch.

    python labels.py

Models, data, initial weights and optimizers are those of make.py. The second label and the sample weights come from streams of
their own; a tenth of the samples weighs nothing. The loss is the sum over labels of
loss weight · nn.BCEWithLogitsLoss(weight=sample weights, pos_weight=weight of clicks), with the reduction "mean".
"""

import numpy as np
import torch
from torch import nn

import make

# Model, optimizer and options: the loss weight of the second label where there is one.
CASES = [
    ("dlrm", "sgd", {"sample_weights": 1}),
    ("dlrm", "adagrad", {"positive_weight": 4}),
    ("dlrm", "sgd", {"labels": 1}),
    ("dcn", "adam", {"labels": 0.25, "sample_weights": 1, "positive_weight": 3}),
    ("dmt-dlrm", "adagrad", {"labels": 0.5, "sample_weights": 1, "positive_weight": 2}),
    ("dmt-dcn", "adam", {"labels": 2, "sample_weights": 1, "positive_weight": 0.5}),
]


def case(model, rule, options):
    params, modules = make.build(model)
    count = 2 if "labels" in options else 1
    if count == 2:
        params["top.1.weight"] = make.weight("top.1.weight", 16, 2)
        params["top.1.bias"] = make.bias("top.1.bias", 16, 2)
    tables = [param for name, param in params.items() if name.startswith("table.")]
    dense_params = [param for name, param in params.items() if not name.startswith("table.")]
    rules = make.optimizers(rule, dense_params, tables)
    dense, label, bags = make.data()
    i = np.arange(make.SAMPLES)
    second = (make.Stream(make.SEED, "golden.label.2").unit(i) < np.float32(0.15)).astype(np.float32)
    labels = torch.stack([label, torch.from_numpy(second)], 1)[:, :count]
    weights = make.Stream(make.SEED, "golden.sample_weight").unit(i) * np.float32(2)
    weights = torch.from_numpy(np.where(weights < np.float32(0.2), np.float32(0), weights))
    if "sample_weights" not in options:
        weights = torch.ones(make.SAMPLES)
    positive = torch.tensor(float(options.get("positive_weight", 1)))
    losses = []
    for step in range(make.STEPS):
        part = slice(step * make.BATCH, (step + 1) * make.BATCH)
        of_step = {name: bags[name][part] for name in make.ROWS}
        output = make.logits(model, params, modules, dense[part], of_step, 0, step * make.BATCH)
        output = output.reshape(make.BATCH, count)
        bce = nn.BCEWithLogitsLoss(weight=weights[part], pos_weight=positive)
        loss_weights = [1, options.get("labels", 0)]
        loss = sum(loss_weights[at] * bce(output[:, at], labels[part, at]) for at in range(count))
        for optimizer in rules:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in rules:
            optimizer.step()
        losses.append(loss.item())
    final = {name: param.detach().flatten()[:8].tolist() for name, param in params.items()}
    return {"model": model, "optimizer": rule, "options": options, "losses": losses, "final": final}


if __name__ == "__main__":
    torch.set_num_threads(1)
    make.write("labels", [case(*args) for args in CASES])
