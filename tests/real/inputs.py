# SPDX-License-Identifier: MIT
"""The inputs of the programs in programs.toml: small, and the same on every machine.

write(folder) makes all of them. Weights and images are random numbers from a fixed seed.
"""
import array
import pathlib
import random
import struct


def floats(random_numbers, count, scale):
    """COUNT floats within +-SCALE: slices of one table, since a million calls would take seconds."""
    table = array.array("f", (random_numbers.uniform(-scale, scale) for _ in range(1 << 16)))
    result = array.array("f")
    while len(result) < count:
        start = random_numbers.randrange(len(table))
        result += table[start:] + table[:start]
    return result[:count]


def llama2(folder, numbers):
    """A model of 6 layers in the format of llama2.c, and a tokenizer of 512 made-up tokens."""
    dim, hidden, layers, heads, vocabulary, length = 256, 688, 6, 8, 512, 1024
    ones = array.array("f", [1.0])
    embedding = floats(numbers, vocabulary * dim, 1.0)
    embedding[dim:2 * dim] = array.array("f", [0.0]) * dim   # token 1 ends the text: never the best
    weights = embedding + ones * (layers * dim) + floats(numbers, 4 * layers * dim * dim, 0.1) \
        + ones * (layers * dim) + floats(numbers, 3 * layers * dim * hidden, 0.1) + ones * dim \
        + array.array("f", [0.0]) * (length * dim // heads)
    with open(folder / "llama.bin", "wb") as file:
        file.write(struct.pack("7i", dim, hidden, layers, heads, heads, vocabulary, length))
        weights.tofile(file)
    with open(folder / "tokenizer.bin", "wb") as file:
        file.write(struct.pack("i", 8))
        for k in range(vocabulary):
            piece = f"t{k} ".encode()
            file.write(struct.pack("fi", -float(k), len(piece)) + piece)


def gpt2(folder, numbers):
    """A model of 4 layers in the format of llm.c, and random tokens to train it with."""
    length, vocabulary, layers, heads, channels = 128, 512, 4, 4, 128
    ones, zeros = array.array("f", [1.0]), array.array("f", [0.0])
    width, inner = layers * channels, channels * channels
    weights = floats(numbers, vocabulary * channels, 0.05) + floats(numbers, length * channels, 0.05) \
        + ones * width + zeros * width \
        + floats(numbers, layers * 3 * inner, 0.05) + zeros * (3 * width) \
        + floats(numbers, layers * inner, 0.05) + zeros * width \
        + ones * width + zeros * width \
        + floats(numbers, layers * 4 * inner, 0.05) + zeros * (4 * width) \
        + floats(numbers, layers * 4 * inner, 0.05) + zeros * width \
        + ones * channels + zeros * channels
    with open(folder / "gpt2.bin", "wb") as file:
        header = [20240326, 3, length, vocabulary, layers, heads, channels, vocabulary]
        file.write(struct.pack("256i", *header, *[0] * (256 - len(header))))
        weights.tofile(file)
    for name, count in (("train.bin", 4 * 64 * 300 + 1), ("val.bin", 4 * 64 * 4 + 1)):
        with open(folder / name, "wb") as file:
            file.write(struct.pack("256i", 20240520, 1, count, *[0] * 253))
            # Squares make low tokens frequent, so that there is something to learn.
            array.array("H", (int(vocabulary * numbers.random() ** 2)
                              for _ in range(count))).tofile(file)


def mnist(folder, numbers):
    """Ten blurred patterns with noise, as images of 28 x 28 in the format of MNIST."""
    patterns = [[numbers.randrange(256) if numbers.random() < 0.3 else 0 for _ in range(784)]
                for _ in range(10)]
    for name, count in (("train", 2000), ("t10k", 300)):
        labels = bytes(numbers.randrange(10) for _ in range(count))
        noise = bytes(numbers.randrange(64) for _ in range(784 * 8))
        images = b"".join(bytes(min(255, a + b) for a, b in
                                zip(patterns[label], noise[784 * (k % 8):784 * (k % 8 + 1)]))
                          for k, label in enumerate(labels))
        (folder / f"{name}-labels.idx1-ubyte").write_bytes(struct.pack(">2i", 2049, count) + labels)
        (folder / f"{name}-images.idx3-ubyte").write_bytes(
            struct.pack(">4i", 2051, count, 28, 28) + images)


def image(folder, numbers):
    """A grey image of 502 x 458 with some shapes and much noise, as text."""
    rows = [" ".join(str(int((60 + 80 * ((x // 90 + y // 70) % 2)) * numbers.uniform(0.6, 1.4)))
                     for x in range(458)) for y in range(502)]
    (folder / "srad").mkdir(exist_ok=True)
    (folder / "srad/image.pgm").write_text("P2\n458 502\n255\n" + "\n".join(rows) + "\n")


def graph(folder):
    """A ladder of 8,000 rungs of 4 nodes: a breadth-first search that has 8,000 levels."""
    rungs, width = 8000, 4
    edges = []
    for node in range(rungs * width):
        rung, place = divmod(node, width)
        edges.append([r * width + (place + r) % width for r in (rung - 1, rung + 1) if 0 <= r < rungs]
                     + ([node + 1] if place + 1 < width else []))
    starts, count = [], 0
    for neighbours in edges:
        starts.append(f"{count} {len(neighbours)}")
        count += len(neighbours)
    flat = [f"{node} 1" for neighbours in edges for node in neighbours]
    (folder / "graph.txt").write_text("\n".join([str(len(edges)), *starts, "", "0", "", str(count),
                                                 *flat]) + "\n")


def lattice(folder):
    """A channel of 128 x 128 cells with walls and a few obstacles, for d2q9-bgk."""
    (folder / "lattice.params").write_text("128\n128\n50000\n10\n0.1\n0.005\n1.7\n")
    blocked = {(x, y) for x in range(128) for y in (0, 127)}
    blocked |= {(x, y) for x in range(40, 52) for y in range(50, 70)}
    (folder / "lattice.dat").write_text("".join(f"{x} {y} 1\n" for x, y in sorted(blocked)))


TEALEAF = """*tea
state 1 density=100.0 energy=0.0001
state 2 density=0.1 energy=25.0 geometry=rectangle xmin=0.0 xmax=1.0 ymin=1.0 ymax=2.0
state 3 density=0.1 energy=0.1 geometry=rectangle xmin=1.0 xmax=6.0 ymin=1.0 ymax=2.0
x_cells=128
y_cells=128
xmin=0.0
ymin=0.0
xmax=10.0
ymax=10.0
initial_timestep=0.004
end_step=8
max_iters=10000
use_cg
eps 1.0e-15
*endtea
"""


def write(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    numbers = random.Random(20)
    llama2(folder, numbers)
    gpt2(folder, numbers)
    mnist(folder, numbers)
    image(folder, numbers)
    graph(folder)
    lattice(folder)
    (folder / "tea.in").write_text(TEALEAF)
