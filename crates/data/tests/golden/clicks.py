"""Writes clicks.snappy.parquet, clicks.zstd.parquet and clicks.json, which says what the two hold.

Both have the same 20 rows; the second has pages of version 2, plain values and row groups of 7 rows.
Made with pyarrow 26.0.1 and xxhash 4.1.0: python clicks.py
"""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

ROWS = 20
clicked = [i % 3 == 0 for i in range(ROWS)]
rating = [i % 6 for i in range(ROWS)]
price = [None if i % 5 == 4 else i - 2.5 for i in range(ROWS)]
visits = [None if i % 7 == 6 else i * i - 3 for i in range(ROWS)]
user = [None if i % 6 == 5 else f"user-{i % 4}" for i in range(ROWS)]
item = [None if i % 9 == 8 else i * 1_000_003 - 5 for i in range(ROWS)]
big = [2**64 - 1 - i for i in range(ROWS)]
row = [None if i % 8 == 7 else i % 10 for i in range(ROWS)]
tags = [None if i % 5 == 0 else [] if i % 5 == 1 else [f"t{i}", None, "ü"][: i % 5 - 1] for i in range(ROWS)]
tag_weights = [None if t is None else [0.5 * k + i for k in range(len(t))] for i, t in enumerate(tags)]
seen = [[i, -i, None][: i % 4] for i in range(ROWS)]
words = [None if i % 10 == 9 else "|".join(f"w{k}:{k + 0.25}" for k in range(i % 4)) for i in range(ROWS)]

table = pa.table(
    {
        "clicked": pa.array(clicked),
        "rating": pa.array(rating, pa.int8()),
        "price": pa.array(price, pa.float64()),
        "visits": pa.array(visits, pa.int16()),
        "user": pa.array(user, pa.string()).dictionary_encode(),
        "item": pa.array(item, pa.int64()),
        "big": pa.array(big, pa.uint64()),
        "row": pa.array(row, pa.uint32()),
        "tags": pa.array(tags, pa.list_(pa.string())),
        "tag_weights": pa.array(tag_weights, pa.list_(pa.float32())),
        "seen": pa.array(seen, pa.list_(pa.int32())),
        "words": pa.array(words, pa.string()),
        "day": pa.array(range(ROWS), pa.int32()).cast(pa.date32()),
    }
)
pq.write_table(table, "clicks.snappy.parquet", compression="snappy", use_dictionary=True, store_schema=False)
pq.write_table(
    table,
    "clicks.zstd.parquet",
    compression="zstd",
    use_dictionary=False,
    data_page_version="2.0",
    row_group_size=7,
    store_schema=False,
)


def key(value):
    """The key of an id: the hash of its text."""
    return str(xxhash.xxh3_64_intdigest(("" if value is None else str(value)).encode()))


def split(text):
    """The (id, weight) pairs of a text."""
    return [] if not text else [piece.split(":") for piece in text.split("|")]


expected = {
    "clicked": [float(c) for c in clicked],
    "rating_from_4": [float(r >= 4) for r in rating],
    "price": price,
    "visits": visits,
    "user": [key(u) for u in user],
    "item": [key(i) for i in item],
    "big": [key(b) for b in big],
    "row": [str(r or 0) for r in row],
    "tags": [[key(t) for t in ts or []] for ts in tags],
    "tag_weights": [ws or [] for ws in tag_weights],
    "seen": [[key(s) for s in ss] for ss in seen],
    "words": [[key(word) for word, _ in split(text)] for text in words],
    "word_weights": [[float(weight) for _, weight in split(text)] for text in words],
}
with open("clicks.json", "w") as file:
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(values)}" for name, values in expected.items())
    file.write("{\n" + lines + "\n}\n")
