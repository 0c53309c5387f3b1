# SPDX-License-Identifier: MIT
"""The inputs of the programs in applications.toml, the same on every machine: FILES has one maker for each name.

make(folder, name) makes a file that is not there yet. All are random numbers from a fixed seed.
"""
import array
import math
import random
import struct

# -- Language models, as llama.cpp reads them ------------------------------------

VOCABULARY, CONTEXT = 32000, 4096
LETTERS = "abcdefghijklmnopqrstuvwxyz"
U32, I32, F32, STRING, ARRAY = 4, 5, 6, 8, 9                  # kinds of a value in GGUF
F32_TENSOR, F16, Q4_0, Q8_0 = 0, 1, 2, 8              # kinds of a tensor
BLOCKS = {F32_TENSOR: (1, 4), F16: (1, 2), Q4_0: (32, 18), Q8_0: (32, 34)}  # elements and bytes of a block
ALIGNMENT = 32
PIECE = 1 << 20                                       # bytes that are made anew; the rest repeats them


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def entry(key, kind, value):
    """A key of GGUF with its value; a list is an array of KIND."""
    numbers = ((U32, "I"), (I32, "i"), (F32, "f"))
    forms = {STRING: string, **{own: struct.Struct(f"<{form}").pack for own, form in numbers}}
    if isinstance(value, list):
        return string(key) + struct.pack("<IIQ", ARRAY, kind, len(value)) + b"".join(map(forms[kind], value))
    return string(key) + struct.pack("<I", kind) + forms[kind](value)


def blocks(numbers, kind, width):
    """About PIECE bytes of weights whose size suits rows of WIDTH."""
    elements, size = BLOCKS[kind]
    count = PIECE // size
    if kind == F16:                                   # +-1 to 2 times a power of two, with random digits
        exponent = 14 - round(math.log2(width) / 2)
        return b"".join(struct.pack("<H", numbers.getrandbits(1) << 15 | exponent << 10 | numbers.getrandbits(10))
                        for _ in range(count))
    scale = struct.pack("<e", 1 / (74 if kind == Q8_0 else 4.6) / math.sqrt(width))
    random_bytes = numbers.randbytes(count * elements)
    step = size - 2
    return b"".join(scale + random_bytes[k * step:(k + 1) * step] for k in range(count))


def inner_of(width):
    """The width of a layer's network."""
    return width * 11 // 4 // 256 * 256


def tensors(layers, width, kind):
    """Name, shape and kind of each tensor of a llama."""
    inner = inner_of(width)
    yield "token_embd.weight", (width, VOCABULARY), kind
    for k in range(layers):
        yield f"blk.{k}.attn_norm.weight", (width,), F32_TENSOR
        for part in ("q", "k", "v", "output"):
            yield f"blk.{k}.attn_{part}.weight", (width, width), kind
        yield f"blk.{k}.ffn_norm.weight", (width,), F32_TENSOR
        yield f"blk.{k}.ffn_gate.weight", (width, inner), kind
        yield f"blk.{k}.ffn_up.weight", (width, inner), kind
        yield f"blk.{k}.ffn_down.weight", (inner, width), kind
    yield "output_norm.weight", (width,), F32_TENSOR
    yield "output.weight", (width, VOCABULARY), kind


def size_of(shape, kind):
    elements, size = BLOCKS[kind]
    return math.prod(shape) // elements * size


def repeat(file, numbers, piece, size, step):
    """Writes SIZE bytes of the piece, each time from another place."""
    while size > 0:
        start = numbers.randrange(len(piece) // step // 2) * step
        size -= file.write(piece[start:start + size])


def language_model(layers, width, kind):
    """A maker of a model with random weights and a vocabulary of made-up words."""
    def write(path, numbers):
        words = ["<unk>", "<s>", "</s>", *(f"<0x{k:02X}>" for k in range(256)), "▁", *LETTERS]
        words += [f"▁w{k}" for k in range(VOCABULARY - len(words))]
        entries = [
            entry("general.architecture", STRING, "llama"),
            entry("llama.context_length", U32, CONTEXT), entry("llama.embedding_length", U32, width),
            entry("llama.block_count", U32, layers), entry("llama.feed_forward_length", U32, inner_of(width)),
            entry("llama.attention.head_count", U32, max(8, width // 128)),
            entry("llama.attention.layer_norm_rms_epsilon", F32, 1e-5),
            entry("tokenizer.ggml.model", STRING, "llama"), entry("tokenizer.ggml.tokens", STRING, words),
            entry("tokenizer.ggml.scores", F32, [-float(k) for k in range(VOCABULARY)]),
            entry("tokenizer.ggml.token_type", I32, [2, 3, 3] + [6] * 256 + [1] * (VOCABULARY - 259)),
        ]
        listed, offset = [], 0
        for name, shape, own in tensors(layers, width, kind):
            listed.append(string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, own, offset))
            offset += -(-size_of(shape, own) // ALIGNMENT) * ALIGNMENT
        piece = blocks(numbers, kind, width)
        with open(path, "wb") as file:
            file.write(b"GGUF" + struct.pack("<IQQ", 3, len(listed), len(entries)) + b"".join(entries + listed))
            file.write(bytes(-file.tell() % ALIGNMENT))
            for _, shape, own in tensors(layers, width, kind):
                if own == F32_TENSOR:
                    file.write(struct.pack("<f", 1.0) * shape[0])
                else:
                    repeat(file, numbers, piece, size_of(shape, own), BLOCKS[own][1])
                file.write(bytes(-file.tell() % ALIGNMENT))
    return write


def prompt(path, numbers):
    """510 letters: with the tokens that begin a text and a word, 512 tokens."""
    path.write_text("".join(numbers.choices(LETTERS, k=510)), encoding="ascii")


# -- Speech, as whisper.cpp reads it ---------------------------------------------

SPEECH_WORDS, SPEECH_TOKENS, SPEECH_LENGTH, TEXT_LENGTH, MELS, FREQUENCIES = 50257, 51864, 1500, 448, 80, 201


def attention(name, width, kind):
    """Name, shape and kind of the tensors of an attention; the keys have no bias."""
    for part in ("query", "key", "value", "out"):
        yield f"{name}.{part}.weight", (width, width), kind
        if part != "key":
            yield f"{name}.{part}.bias", (width,), F32_TENSOR


def norm(name, width):
    yield f"{name}.weight", (width,), F32_TENSOR
    yield f"{name}.bias", (width,), F32_TENSOR


def speech_tensors(layers, width, kind):
    for side, length in (("encoder", SPEECH_LENGTH), ("decoder", TEXT_LENGTH)):
        yield f"{side}.positional_embedding", (width, length), F32_TENSOR
        for k in range(layers):
            block = f"{side}.blocks.{k}"
            for part in ("attn", "cross_attn")[:1 if side == "encoder" else 2]:
                yield from norm(f"{block}.{part}_ln", width)
                yield from attention(f"{block}.{part}", width, kind)
            yield from norm(f"{block}.mlp_ln", width)
            for part, shape in (("0", (width, 4 * width)), ("2", (4 * width, width))):
                yield f"{block}.mlp.{part}.weight", shape, kind
                yield f"{block}.mlp.{part}.bias", shape[1:], F32_TENSOR
        yield from norm(f"{side}.ln_post" if side == "encoder" else f"{side}.ln", width)
    for k, inputs in (("1", MELS), ("2", width)):
        yield f"encoder.conv{k}.weight", (3, inputs, width), F16
        yield f"encoder.conv{k}.bias", (1, width), F32_TENSOR
    yield "decoder.token_embedding.weight", (width, SPEECH_TOKENS), kind


def speech_model(layers, width):
    """A maker of a model with random weights and a vocabulary of made-up words."""
    def write(path, numbers):
        words = [" ", *(f" w{k}" for k in range(SPEECH_WORDS - 1))]
        heads = width // 64
        small = array.array("f", (numbers.uniform(-0.1, 0.1) for _ in range(1 << 14)))
        weights = blocks(numbers, F16, width)
        with open(path, "wb") as file:
            file.write(struct.pack("<12i", 0x67676d6c, SPEECH_TOKENS, SPEECH_LENGTH, width, heads, layers, TEXT_LENGTH,
                                   width, heads, layers, MELS, 1))
            file.write(struct.pack("<2i", MELS, FREQUENCIES) + (small * 2)[:MELS * FREQUENCIES].tobytes())
            file.write(struct.pack("<i", len(words)))
            file.writelines(struct.pack("<I", len(word)) + word.encode() for word in words)
            for name, shape, kind in speech_tensors(layers, width, F16):
                file.write(struct.pack(f"<3i{len(shape)}i", len(shape), len(name), kind, *shape) + name.encode())
                repeat(file, numbers, weights if kind == F16 else small.tobytes(), size_of(shape, kind), 4)
    return write


def tone(path, numbers):
    """Two minutes of a voice that changes its height, as samples of 16 bits."""
    count, rate = 120 * 16000, 16000
    phase, samples = 0.0, array.array("h")
    for k in range(count):
        if k % 4000 == 0:
            step = numbers.uniform(100, 900) * 2 * math.pi / rate
        phase += step
        samples.append(int(8000 * math.sin(phase)))
    header = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + 2 * count, b"WAVE", b"fmt ", 16, 1, 1, rate, 2 * rate, 2,
                         16, b"data", 2 * count)
    path.write_bytes(header + samples.tobytes())


# -- Linear programs -------------------------------------------------------------

def transport(places):
    """A maker of a transport problem in MPS: PLACES sources, as many sinks, a price for each pair."""
    def write(path, numbers):
        amounts = [[numbers.randint(1, 20) for _ in range(places)] for _ in range(2)]
        amounts[1][0] += max(0, sum(amounts[0]) - sum(amounts[1]))
        amounts[0][0] += max(0, sum(amounts[1]) - sum(amounts[0]))
        with open(path, "w", encoding="ascii") as file:
            file.write("NAME transport\nROWS\n N cost\n")
            file.writelines(f" E {side}{k}\n" for side in "ab" for k in range(places))
            file.write("COLUMNS\n")
            for i in range(places):
                file.writelines(f" x{i}_{j} cost {numbers.randint(1, 1000)}\n x{i}_{j} a{i} 1\n x{i}_{j} b{j} 1\n"
                                for j in range(places))
            file.write("RHS\n")
            file.writelines(f" rhs {side}{k} {amount}\n" for side, own in zip("ab", amounts)
                            for k, amount in enumerate(own))
            file.write("ENDATA\n")
    return write


# -- Crystals --------------------------------------------------------------------

def silicon(cells):
    """A maker of a folder for GPUMD: a crystal of 8 CELLS^3 atoms, Tersoff's potential of 1989, a run."""
    def write(path, _):
        path.mkdir()
        edge = 5.43
        corners = [(0, 0, 0), (0, 2, 2), (2, 0, 2), (2, 2, 0), (1, 1, 1), (1, 3, 3), (3, 1, 3), (3, 3, 1)]
        side = edge * cells
        lines = [f"{8 * cells ** 3}", f'pbc="T T T" Lattice="{side} 0 0 0 {side} 0 0 0 {side}" '
                 "Properties=species:S:1:pos:R:3"]
        lines += [f"Si {(x + a / 4) * edge:.6g} {(y + b / 4) * edge:.6g} {(z + c / 4) * edge:.6g}"
                  for x in range(cells) for y in range(cells) for z in range(cells) for a, b, c in corners]
        (path / "model.xyz").write_text("\n".join(lines) + "\n", encoding="ascii")
        (path / "Si.txt").write_text("tersoff_1989 1 Si\n1830.8 471.18 2.4799 1.7322 1.1e-6 0.78734 1.0039e5 "
                                     "16.217 -0.59825 2.7 3.0\n", encoding="ascii")
        steps = 20000 if cells < 10 else 1000
        (path / "run.in").write_text(f"potential Si.txt\nvelocity 300 seed 1\nensemble nve\ntime_step 1\n"
                                     f"dump_thermo {steps // 10}\nrun {steps}\n", encoding="ascii")
    return write


# -- Liquids ---------------------------------------------------------------------

TOPOLOGY = """[ defaults ]
1 2 yes 0.5 0.8333
[ atomtypes ]
OW 8 15.999 0 A 0.315075 0.635968
HW 1 1.008 0 A 0.1 0
[ moleculetype ]
SOL 2
[ atoms ]
1 OW 1 SOL OW 1 -0.834
2 HW 1 SOL HW1 1 0.417
3 HW 1 SOL HW2 1 0.417
[ settles ]
1 1 0.09572 0.15139
[ exclusions ]
1 2 3
2 1 3
3 1 2
[ system ]
water
[ molecules ]
SOL {molecules}
"""
WAY = """integrator = md
dt = 0.002
nsteps = {steps}
cutoff-scheme = Verlet
coulombtype = PME
rcoulomb = 0.9
rvdw = 0.9
tcoupl = v-rescale
tc-grps = System
tau-t = 0.1
ref-t = 300
ld-seed = 1
gen-vel = yes
gen-temp = 300
gen-seed = 1
nstlist = 100
nstcalcenergy = 100
nstenergy = 1000
nstlog = 1000
"""


def water(edge, steps):
    """A maker of a folder for GROMACS: EDGE^3 molecules on a lattice, turned in one of two ways."""
    def write(path, _):
        path.mkdir()
        spacing, half, height = 0.3107, 0.0757, 0.0586
        lines = ["water", f"{3 * edge ** 3}"]
        for k in range(edge ** 3):
            x, y, z = k % edge, k // edge % edge, k // edge // edge
            turn = height if (x + y + z) % 2 else -height
            for part, (name, along, up) in enumerate((("OW", 0, 0), ("HW1", half, turn), ("HW2", -half, turn))):
                lines.append(f"{(k + 1) % 100000:5}SOL  {name:>5}{(3 * k + part + 1) % 100000:5}"
                             f"{x * spacing + along:8.3f}{y * spacing + up:8.3f}{z * spacing:8.3f}")
        lines.append(" ".join([f"{edge * spacing:.5f}"] * 3))
        (path / "conf.gro").write_text("\n".join(lines) + "\n", encoding="ascii")
        (path / "topol.top").write_text(TOPOLOGY.format(molecules=edge ** 3), encoding="ascii")
        (path / "md.mdp").write_text(WAY.format(steps=steps), encoding="ascii")
    return write


def melt(cells, steps):
    """A maker of a script for LAMMPS: a crystal of 4 CELLS^3 atoms melts."""
    def write(path, _):
        path.write_text(f"units lj\natom_style atomic\nlattice fcc 0.8442\nregion box block 0 {cells} 0 {cells} "
                        f"0 {cells}\ncreate_box 1 box\ncreate_atoms 1 box\nmass 1 1.0\n"
                        "velocity all create 1.44 87287 loop geom\npair_style lj/cut 2.5\npair_coeff 1 1 1.0 1.0 2.5\n"
                        "neighbor 0.3 bin\nneigh_modify delay 0 every 20 check no\nfix 1 all nve\nthermo 100\n"
                        f"run {steps}\n", encoding="ascii")
    return write


FILES = {
    "llama-8-512-q8_0.gguf": language_model(8, 512, Q8_0),
    "llama-16-1024-f16.gguf": language_model(16, 1024, F16),
    "llama-24-2048-q4_0.gguf": language_model(24, 2048, Q4_0),
    "llama-28-3072-q4_0.gguf": language_model(28, 3072, Q4_0),
    "prompt.txt": prompt,
    "whisper-small.bin": speech_model(4, 384), "whisper-full.bin": speech_model(32, 1280), "tone.wav": tone,
    "transport-small.mps": transport(40), "transport-full.mps": transport(1000),
    "silicon-small": silicon(5), "silicon-full": silicon(60),
    "water-small": water(9, 20000), "water-full": water(40, 2000),
    "melt-small.in": melt(10, 20000), "melt-full.in": melt(100, 300),
}


def make(folder, name):
    """Makes FOLDER/NAME, unless it is there."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / name).exists():
        unfinished = folder / f"unfinished-{name}"
        FILES[name](unfinished, random.Random(name))
        unfinished.rename(folder / name)
