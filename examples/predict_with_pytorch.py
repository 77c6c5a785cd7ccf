"""Predicts with an exported DLRM or DeepFM in PyTorch, from a Criteo log, and compares with campanile's own predictions.

    campanile train --data train.tsv --eval test.tsv --preset kaggle --out run
    campanile checkpoint export run --out model.safetensors
    campanile eval --checkpoint run --data test.tsv --predictions test.csv
    python examples/predict_with_pytorch.py model.safetensors test.tsv test.csv     (needs torch, safetensors, xxhash)

It shows all that another program needs to know: names and shapes of the tensors, how counts and ids are read, and how
the parts meet. The two predictions agree to the last bits of single precision.
"""

import csv
import math
import sys
from itertools import islice

import torch
import xxhash
from safetensors.torch import load_file

weights = load_file(sys.argv[1])
if any(key.startswith("towers.") for key in weights):
    sys.exit("this example knows no tower modules; `campanile checkpoint export --help` says what they are in the file")
SAMPLES = 2000


def mlp(x, name, relu_at_end):
    layers = sum(key.startswith(name + ".") and key.endswith(".weight") for key in weights)
    for i in range(layers):
        x = torch.nn.functional.linear(x, weights[f"{name}.{i}.weight"], weights[f"{name}.{i}.bias"])
        if i + 1 < layers or relu_at_end:
            x = torch.relu(x)
    return x


def row(text, rows):
    """The upper 32 bits of the text's XXH3 hash, scaled to the rows of the table."""
    return (xxhash.xxh3_64_intdigest(text.encode()) >> 32) * rows >> 32


tables = [weights[f"tables.C{i}.weight"] for i in range(1, 27)]
counts, ids = [], []
for line in islice(open(sys.argv[2]), SAMPLES):
    fields = line.rstrip("\n").split("\t")
    counts.append([math.log1p(max(float(x), 0)) if x else 0.0 for x in fields[1:14]])
    ids.append([row(text, len(table)) for text, table in zip(fields[14:], tables)])
ids = torch.tensor(ids)

counts = torch.tensor(counts)
rows = torch.stack([table[ids[:, i]] for i, table in enumerate(tables)], dim=1)
if "deep.0.weight" in weights:
    # The last column of a DeepFM's row is the linear weight of the id.
    vectors, linear = rows[..., :-1], rows[..., -1].sum(1) + mlp(counts, "linear", relu_at_end=False).squeeze(1)
    pairs = 0.5 * (vectors.sum(1).square() - vectors.square().sum(1)).sum(1)
    deep = mlp(torch.cat([vectors.flatten(1), counts], dim=1), "deep", relu_at_end=False).squeeze(1)
    logits = linear + pairs + deep
else:
    dense = mlp(counts, "bottom", relu_at_end=True)
    vectors = torch.cat([dense.unsqueeze(1), rows], dim=1)
    products = torch.bmm(vectors, vectors.transpose(1, 2))
    below, left = torch.tril_indices(vectors.shape[1], vectors.shape[1], -1)
    # A column for each label: a model with one label has one.
    logits = mlp(torch.cat([dense, products[:, below, left]], dim=1), "top", relu_at_end=False)
probabilities = torch.sigmoid(logits).reshape(len(ids), -1)

table = csv.DictReader(open(sys.argv[3]))
columns = [name for name in table.fieldnames if name == "probability" or name.startswith("probability_")]
ours = torch.tensor([[float(r[name]) for name in columns] for r in islice(table, SAMPLES)])
print(f"{len(ours)} samples, largest difference {(probabilities - ours).abs().max():.1e}")
