"""One training step of DLRM or DCN-v2 in PyTorch on the CPU: the peer of `campanile bench step`.

    python torch_step.py --cfg kaggle|mlperf --model dlrm|dcn --emb bag|fbgemm --batch 2048 --steps 40 --threads 2

  --emb bag     nn.EmbeddingBag(sparse=True) per table and SGD, as in facebookresearch/dlrm
  --emb fbgemm  all tables in one fused FBGEMM operator with SGD inside, as in TorchRec

  --variant plain     products in f32
  --variant autocast  the dense part under bf16 autocast
  --variant compiled  the dense part under bf16 autocast, by torch.compile; needs a C++ compiler, and minutes at first
  --variant medium    set_float32_matmul_precision("medium"): products of f32 by bf16 instructions

Single-hot features, ids uniform, SGD everywhere. The last line is JSON: the median over steps.
"""

import argparse
import json
import statistics
import time

import torch
from torch import nn

KAGGLE = [
    1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194,
    27, 14992, 5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572,
]  # fmt: skip
TERABYTE = [
    45833188, 36746, 17245, 7413, 20243, 3, 7114, 1441, 62, 29275261, 1572176, 345138, 10,
    2209, 11267, 128, 4, 974, 14, 48937457, 11316796, 40094537, 452104, 12606, 104, 35,
]  # fmt: skip
DENSE, LR = 13, 0.01
KEPT = ("cfg", "model", "emb", "variant", "batch", "threads")
CONFIGS = {
    "kaggle": dict(rows=KAGGLE, dim=16, bottom=[512, 256, 64, 16], top=[512, 256, 1]),
    "mlperf": dict(rows=TERABYTE, dim=128, bottom=[512, 256, 128], top=[1024, 1024, 512, 256, 1]),
}


def mlp(sizes, last_relu):
    layers = []
    for inputs, outputs in zip(sizes, sizes[1:]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*(layers if last_relu else layers[:-1]))


class Dot(nn.Module):
    """The dense vector, and the inner products of all pairs of vectors."""

    def __init__(self, vectors, dim):
        super().__init__()
        self.pairs = torch.tril_indices(vectors, vectors, -1)
        self.width = dim + self.pairs.shape[1]

    def forward(self, x):
        products = torch.bmm(x, x.transpose(1, 2))
        return torch.cat([x[:, 0], products[:, self.pairs[0], self.pairs[1]]], 1)


class Cross(nn.Module):
    """DCN-v2's low-rank cross layers: x₀ ⊙ (W·V·x + b) + x."""

    def __init__(self, vectors, dim, layers=3, rank=512):
        super().__init__()
        self.width = vectors * dim
        self.v = nn.ModuleList(nn.Linear(self.width, rank, bias=False) for _ in range(layers))
        self.w = nn.ModuleList(nn.Linear(rank, self.width) for _ in range(layers))

    def forward(self, x):
        x0 = x = x.flatten(1)
        for v, w in zip(self.v, self.w):
            x = x0 * w(v(x)) + x
        return x


class Dense(nn.Module):
    """All of the model but its tables: from numbers and pooled vectors to logits."""

    def __init__(self, bottom, interaction, top):
        super().__init__()
        self.bottom, self.interaction, self.top = bottom, interaction, top

    def forward(self, dense, pooled):
        return self.top(self.interaction(torch.cat([self.bottom(dense).unsqueeze(1), pooled], 1)))


class Bags(nn.Module):
    """One sparse EmbeddingBag per table, and its own SGD."""

    def __init__(self, rows, dim, batch):
        super().__init__()
        self.offsets = torch.arange(batch)
        self.tables = nn.ModuleList(nn.EmbeddingBag(r, dim, mode="sum", sparse=True) for r in rows)
        self.optimizer = torch.optim.SGD(self.tables.parameters(), lr=LR)

    def forward(self, ids):
        return torch.stack([table(row, self.offsets) for table, row in zip(self.tables, ids)], 1)

    def update(self):
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


class Fused(nn.Module):
    """FBGEMM's table-batched embedding, which updates in its backward pass."""

    def __init__(self, rows, dim, batch):
        super().__init__()
        from fbgemm_gpu.split_table_batched_embeddings_ops_training import (
            ComputeDevice,
            EmbeddingLocation,
            OptimType,
            SplitTableBatchedEmbeddingBagsCodegen,
        )

        self.tables = SplitTableBatchedEmbeddingBagsCodegen(
            [(r, dim, EmbeddingLocation.HOST, ComputeDevice.CPU) for r in rows],
            optimizer=OptimType.EXACT_SGD,
            learning_rate=LR,
        )
        self.tables.init_embedding_weights_uniform(-0.01, 0.01)
        self.offsets = torch.arange(len(rows) * batch + 1)
        self.shape = (batch, len(rows), dim)

    def forward(self, ids):
        return self.tables(ids.flatten(), self.offsets).view(self.shape)

    def update(self):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cfg", choices=CONFIGS, default="kaggle")
    parser.add_argument("--model", choices=["dlrm", "dcn"], default="dlrm")
    parser.add_argument("--emb", choices=["bag", "fbgemm"], default="fbgemm")
    parser.add_argument("--variant", choices=["plain", "autocast", "compiled", "medium"], default="plain")
    parser.add_argument("--rows-cap", type=int, help="rows of a table at most; mlperf: 200000 unless told")
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--warm-up", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    if args.variant == "medium":
        torch.set_float32_matmul_precision("medium")
    bf16 = args.variant in ("autocast", "compiled")
    config = CONFIGS[args.cfg]
    cap = args.rows_cap or (200_000 if args.cfg == "mlperf" else max(KAGGLE))
    rows, dim = [min(r, cap) for r in config["rows"]], config["dim"]
    vectors = len(rows) + 1
    bottom = mlp([DENSE, *config["bottom"]], last_relu=True)
    interaction = (Dot if args.model == "dlrm" else Cross)(vectors, dim)
    top = mlp([interaction.width, *config["top"]], last_relu=False)
    tables = (Bags if args.emb == "bag" else Fused)(rows, dim, args.batch)
    network = Dense(bottom, interaction, top)
    optimizer = torch.optim.SGD(network.parameters(), lr=LR)
    forward = torch.compile(network) if args.variant == "compiled" else network
    loss_of = nn.BCEWithLogitsLoss()

    def batch():
        ids = torch.stack([torch.randint(r, (args.batch,)) for r in rows])
        return torch.rand(args.batch, DENSE), ids, (torch.rand(args.batch, 1) < 0.25).float()

    batches = [batch() for _ in range(8)]

    def step(i):
        dense, ids, label = batches[i % len(batches)]
        pooled = tables(ids)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            logits = forward(dense, pooled)
        loss_of(logits.float(), label).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        tables.update()

    for i in range(args.warm_up):
        step(i)
    times = []
    for i in range(args.steps):
        start = time.perf_counter()
        step(i)
        times.append(time.perf_counter() - start)
    median = statistics.median(times)
    record = dict(ms_per_step=round(median * 1e3, 3), samples_per_s=round(args.batch / median), torch=torch.__version__)
    print(json.dumps(record | {k: v for k, v in vars(args).items() if k in KEPT}))


if __name__ == "__main__":
    main()
