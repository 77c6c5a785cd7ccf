"""Predicts with an exported model in PyTorch, from a raw log, and compares with campanile's own predictions.

    campanile train --data train.csv --eval test.csv --out run
    campanile checkpoint export run --out model.safetensors
    campanile predict --checkpoint run --data test.csv --out test_scores.csv
    python examples/predict_with_pytorch.py model.safetensors test.csv test_scores.csv     (needs torch, safetensors, xxhash)

It shows all that another program needs to know: names and shapes of the tensors, how numbers and ids are read, and how the
parts meet. What is in the log stands beside the model: model.inputs.json has the schema, the transforms with the values that
were learnt, and the rule by which ids have rows; model.FEATURE.csv has the rows of a vocabulary. The two predictions agree to
the last bits of single precision.
"""

import bisect
import csv
import json
import math
import sys
from itertools import islice
from pathlib import Path

import torch
import xxhash
from safetensors.torch import load_file

SAMPLES = 2000
model = Path(sys.argv[1])
weights = load_file(model)
inputs = json.loads(model.with_suffix(".inputs.json").read_text())
schema = inputs["schema"]
if any(key.startswith("towers.") for key in weights):
    sys.exit("this example knows no tower modules; `campanile checkpoint export --help` says what they are in the file")

if schema.get("labels"):
    sys.exit("this example knows models with one label only")


def mlp(x, name, relu_at_end):
    layers = sum(key.startswith(name + ".") and key.endswith(".weight") for key in weights)
    for i in range(layers):
        x = torch.nn.functional.linear(x, weights[f"{name}.{i}.weight"], weights[f"{name}.{i}.bias"])
        if i + 1 < layers or relu_at_end:
            x = torch.relu(x)
    return x


def is_missing(text):
    return text == "" or text in schema.get("missing", [])


def number(text, column):
    """A dense input: the steps of its transform, one after the other."""
    if is_missing(text):
        return column["missing"]
    x = float(text)
    for step in column["steps"]:
        name, values = (step, {}) if isinstance(step, str) else next(iter(step.items()))
        if name == "log":
            x = math.log1p(max(x, 0))
        elif name == "clip":
            x = min(max(x, values["low"]), values["high"])
        elif name == "standardise":
            x = (x - values["mean"]) / values["deviation"]
        elif name == "bucketise":
            x = bisect.bisect_left(values["boundaries"], x) / max(len(values["boundaries"]), 1)
        else:
            sys.exit(f"unknown transform {name}")
    return x


def vocabulary(name):
    with open(model.with_name(name), newline="") as file:
        return {line["id"]: int(line["row"]) for line in csv.DictReader(file)}


def row(text, feature):
    """The row of an id in the table of its feature."""
    ids = feature["ids"]
    if ids["rule"] == "hash":
        key = xxhash.xxh3_64_intdigest(b"" if is_missing(text) else text.encode())
        return (key >> 32) * feature["rows"] >> 32
    if is_missing(text):
        return 0
    if ids["rule"] == "vocabulary":
        return feature["vocabulary"].get(text, 0)
    if ids["rule"] == "buckets":
        return 1 + bisect.bisect_left(ids["boundaries"], float(text))
    return int(text)


def bag(fields, feature, column):
    """Rows and weights of the ids of a field."""
    text = fields[feature["column"]]
    if "separator" not in column:
        items = [text]
    else:
        items = [] if is_missing(text) else text.split(column["separator"])
    factors = [1.0] * len(items)
    if "weight_separator" in column:
        pairs = [item.rpartition(column["weight_separator"]) for item in items]
        items = [before if middle else after for before, middle, after in pairs]
        factors = [float(after) if middle else 1.0 for _, middle, after in pairs]
    elif "weights" in column and not is_missing(fields[column["weights"]]):
        factors = [float(x) for x in fields[column["weights"]].split(column.get("separator"))]
    return [row(item, feature) for item in items], factors


def pooled(bags, feature):
    """The sum of the weighted rows of each bag, or their mean."""
    table = weights[feature["table"]]
    vectors = []
    for rows, factors in bags:
        vector = (table[rows] * torch.tensor(factors).reshape(-1, 1)).sum(0)
        vectors.append(vector / len(rows) if feature["pooling"] == "mean" and rows else vector)
    return torch.stack(vectors)


for feature in inputs["sparse"]:
    if feature["ids"]["rule"] == "vocabulary":
        if not feature["ids"]["file"]:
            sys.exit(f"the texts of the ids of {feature['column']} were not kept when the log was prepared")
        feature["vocabulary"] = vocabulary(feature["ids"]["file"])

# A log whose schema names its columns has no header. Without quotes, it is cut at every tab.
columns = schema.get("columns")
quoting = csv.QUOTE_NONE if columns and schema["delimiter"] == "\t" else csv.QUOTE_MINIMAL
with open(sys.argv[2], newline="") as file:
    lines = list(islice(csv.DictReader(file, columns, delimiter=schema["delimiter"], quoting=quoting), SAMPLES))

dense_inputs = torch.tensor([[number(fields[c["column"]], c) for c in inputs["dense"]] for fields in lines])
rows = torch.stack(
    [
        pooled([bag(fields, feature, column) for fields in lines], feature)
        for feature, column in zip(inputs["sparse"], schema["sparse"])
    ],
    dim=1,
)
if "deep.0.weight" in weights:
    # The last column of a DeepFM's row is the linear weight of the id.
    vectors, linear = rows[..., :-1], rows[..., -1].sum(1) + mlp(dense_inputs, "linear", relu_at_end=False).squeeze(1)
    pairs = 0.5 * (vectors.sum(1).square() - vectors.square().sum(1)).sum(1)
    deep = mlp(torch.cat([vectors.flatten(1), dense_inputs], dim=1), "deep", relu_at_end=False).squeeze(1)
    logits = linear + pairs + deep
else:
    dense = mlp(dense_inputs, "bottom", relu_at_end=True)
    vectors = torch.cat([dense.unsqueeze(1), rows], dim=1)
    products = torch.bmm(vectors, vectors.transpose(1, 2))
    below, left = torch.tril_indices(vectors.shape[1], vectors.shape[1], -1)
    # A column for each label: a model with one label has one.
    logits = mlp(torch.cat([dense, products[:, below, left]], dim=1), "top", relu_at_end=False)
probabilities = torch.sigmoid(logits).reshape(len(lines), -1)

table = csv.DictReader(open(sys.argv[3]))
columns = [name for name in table.fieldnames if name == "probability" or name.startswith("probability_")]
ours = torch.tensor([[float(r[name]) for name in columns] for r in islice(table, SAMPLES)])
print(f"{len(ours)} samples, largest difference {(probabilities - ours).abs().max():.1e}")
