#!/usr/bin/env python3
"""Decoding and prompts of coded weights: tern's types and llama.cpp's files, in turns, beside a plain read of the same bytes.

    coded.py --model FOLDER [--tern build/release/bin/tern] [--read-rate build/release/benchmarks/inference/read_rate]
             [--llama-bench PATH --llama-quantize PATH] [--types lc4,lc3,lc2,q4_0,q8_0,Q4_K_S] [--arithmetic int8,kept]
             [--prompt 512] [--tokens 32] [--rounds 3] [--threads 2] [--json result.json] [--make]

FOLDER keeps a Llama of 1.1B with random weights (shapes.py) and what is made of it: lower-case types by `tern quantize`, others by
llama-quantize; lc types are random codes of those bytes, as learning tables for random weights would take an hour and say nothing of speed. Round after round
each type is run once by tern in each arithmetic and, a GGUF file, once by llama-bench; read_rate reads the same file before and after.
One decoded token reads all tensors but the embedding: the share is of the median read of those bytes, from the page cache.
Prompts also in tern's bf16 (`bf16`) and llama.cpp's, for the ratio to unquantised weights. --make: only write the files.
Needs numpy and gguf.
"""
import argparse
import json
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE))
import compare as bf16  # noqa: E402
import shapes  # noqa: E402

LLAMA_TABLE = "q8_0"  # the same table of tokens in every file, as far as the writer lets one choose


def write_learned(shape, tokenizer, target, bits):
    """A directory as `tern quantize --method lcq` writes it, of random codes: layers in LC4, LC3 or LC2, tables of tokens in Q8_0."""
    import numpy as np
    rng = np.random.default_rng(bits)

    def levels():
        return np.sort(rng.integers(-127, 128, (4, 1 << bits)).astype(np.int8))

    def learned(rows, columns):
        blocks = rng.integers(0, 256, (rows, columns // 32, 1 + 4 * bits), dtype=np.uint8)
        blocks[:, :, 0] &= 0x83  # any table and sign, the scale that is one
        start = np.full((rows, 2), np.array([0x39, 0x8e], np.uint8)[::-1])  # bf16 of 2.7e-4, the row's scale
        return np.concatenate([start, blocks.reshape(rows, -1)], axis=1)

    def eight_bits(rows, columns):
        blocks = rng.integers(0, 256, (rows, columns // 32, 34), dtype=np.uint8)
        blocks[:, :, :2] = np.array([0x00, 0x0d], np.uint8)  # f16 of 3e-4
        return blocks

    tensors = {}  # vectors, then tables of levels, then codes: each its alignment; made as they are written
    shapes_of = {name: size for name, size, _ in shapes.tensors_of(shapes.MODELS[shape])}
    matrices = {name: size for name, size in shapes_of.items() if len(size) == 2}
    for name, size in shapes_of.items():
        if len(size) == 1:
            tensors[name] = ("BF16", size, lambda size=size: np.full(size, 0x3f80, np.uint16))
    for name in matrices:
        if ".layers." in name:
            tensors[name + ".levels"] = ("I8", [4, 1 << bits], levels)
    for name, (rows, columns) in matrices.items():
        if ".layers." in name:
            tensors[f"{name}.lc{bits}"] = ("U8", [rows, 2 + columns // 32 * (1 + 4 * bits)], lambda size=(rows, columns): learned(*size))
        else:
            tensors[f"{name}.q8_0"] = ("U8", [rows, columns // 32 * 34], lambda size=(rows, columns): eight_bits(*size))
    at, table = 0, {"__metadata__": {"format": "pt"}}
    for name, (dtype, size, _) in tensors.items():
        end = at + shapes.size_of(size) * (2 if dtype == "BF16" else 1)
        table[name] = {"dtype": dtype, "shape": size, "data_offsets": [at, end]}
        at = end
    text = json.dumps(table).encode()
    text += b" " * (-len(text) % 8)
    part = target.with_name(target.name + ".part")
    part.mkdir(exist_ok=True)
    with open(part / "model.safetensors", "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for _, _, make in tensors.values():
            f.write(make().tobytes())
    config = shapes.config_of(shapes.MODELS[shape]) | {"quantization_config": {"quant_method": "tern"}}
    (part / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    shapes.copy_tokenizer(tokenizer, part)
    part.rename(target)


def write_q4_k(shape, path):
    """A GGUF file of a Llama for llama.cpp, of random codes: matrices and the table of tokens in Q4_K, the head in Q6_K; without a tokenizer."""
    import gguf
    import numpy as np
    rng = np.random.default_rng(4)
    m, kinds = shapes.MODELS[shape], gguf.GGMLQuantizationType
    part = path.with_name(path.name + ".part")
    w = gguf.GGUFWriter(part, "llama")
    for add, value in ((w.add_block_count, m["layers"]), (w.add_context_length, 2048), (w.add_embedding_length, m["width"]),
                       (w.add_feed_forward_length, m["hidden"]), (w.add_head_count, m["heads"]), (w.add_head_count_kv, m["kv_heads"]),
                       (w.add_rope_dimension_count, m["head"]), (w.add_layer_norm_rms_eps, 1e-5), (w.add_vocab_size, shapes.VOCABULARY),
                       (w.add_file_type, gguf.LlamaFileType.MOSTLY_Q4_K_S), (w.add_tokenizer_model, "no_vocab")):
        add(value)
    # bytes of 256 numbers, where their f16 factors stand, and the factors: numbers of mean 0 and a deviation of about 0.02
    blocks_of = {kinds.Q4_K: (144, slice(0, 4), [8e-5, 6e-4]), kinds.Q6_K: (210, slice(208, 210), [1.5e-5])}
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, m["layers"])
    tensors = []
    for name, size, _ in shapes.tensors_of(m):
        kind = kinds.F32 if len(size) == 1 else kinds.Q6_K if name == "lm_head.weight" else kinds.Q4_K
        dtype, size = (np.float32, size) if kind == kinds.F32 else (np.uint8, (size[0], size[1] // 256 * blocks_of[kind][0]))
        w.add_tensor_info(names.get_name(name, (".weight",)), size, np.dtype(dtype), shapes.size_of(size) * np.dtype(dtype).itemsize, kind)
        tensors.append((kind, size))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_ti_data_to_file()
    for kind, size in tensors:
        data = np.ones(size, np.float32)
        if kind != kinds.F32:
            block, place, factors = blocks_of[kind]
            data = rng.integers(0, 256, size, dtype=np.uint8)
            data.reshape(size[0], -1, block)[:, :, place] = np.array(factors, np.float16).view(np.uint8)
        w.write_tensor_data(data)
    w.close()
    part.rename(path)


def make_file(a, kind):
    """The file or directory of one type, written once."""
    work, name = a.model, {"lc4": "4", "lc3": "3", "lc2": "2"}.get(kind)
    if kind == "bf16":
        return work / "model"
    path = work / (kind if name else f"{kind}.gguf")
    if path.exists():
        return path
    if name:
        write_learned(a.shape, work / "model", path, int(name))
    elif kind.islower():
        bf16.run(a.tern, "quantize", work / "model", "--type", kind, "--output", path)
    else:
        if not (work / "model.gguf").exists():
            bf16.run(a.tern, "export", work / "model", "--format", "gguf", "--output", work / "model.gguf")
        bf16.run(a.llama_quantize, "--token-embedding-type", LLAMA_TABLE, "--output-tensor-type", LLAMA_TABLE, work / "model.gguf",
                 path, kind, a.threads)
    return path


def bytes_of_a_token(path):
    """What a decoded token reads: all tensors but the embedding; and the file to read them from."""
    if path.is_file():
        from gguf import GGUFReader
        return sum(int(t.n_bytes) for t in GGUFReader(path).tensors if t.name != "token_embd.weight"), path
    files = sorted(path.glob("*.safetensors"))
    size = 0
    for file in files:
        with open(file, "rb") as f:
            header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        size += sum(t["data_offsets"][1] - t["data_offsets"][0] for n, t in header.items() if n != "__metadata__" and "embed_tokens" not in n)
    return size, files[0]


def prompt_file(a):
    """A prompt of as many tokens as asked, from the text that the tokenizer was trained on."""
    path = a.model / f"prompt-{a.prompt}.txt"
    if not path.exists():
        ids = json.loads(bf16.run(a.tern, "tokenize", a.model / "model", "--input", a.model / "text.txt", "--json"))["token_ids"][: a.prompt]
        path.write_text(bf16.run(a.tern, "tokenize", a.model / "model", "--decode", "--text", " ".join(map(str, ids))))
    return path


def run_tern(a, path, arithmetic):
    weights = "mapped" if arithmetic else "auto"
    out = json.loads(bf16.run(a.tern, "generate", path, "--prompt-file", prompt_file(a), "--max-tokens", a.tokens + 1, "--temperature", 0,
                              "--ignore-eos", "--weights", weights, "--threads", a.threads, "--json",
                              *(["--arithmetic", arithmetic] if arithmetic else [])))
    t = out["timings"]
    return {"prompt": t["prefill_tokens_per_s"], "decode": 1 / t["decode_step_s"]["median"], "mean": t["decode_tokens_per_s"]}


def run_llama(a, path):
    rows = json.loads(bf16.run(a.llama_bench, "-m", path, "-p", a.prompt, "-n", a.tokens, "-t", a.threads, "-r", 1, "-o", "json"))
    by = {"prompt" if r["n_prompt"] else "decode": r["avg_ts"] for r in rows}
    return {**by, "mean": by["decode"]}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", type=pathlib.Path, required=True)
    p.add_argument("--tern", default=str(ROOT / "build/release/bin/tern"))
    p.add_argument("--read-rate", default=str(ROOT / "build/release/benchmarks/inference/read_rate"))
    p.add_argument("--llama-bench")
    p.add_argument("--llama-quantize")
    p.add_argument("--types", default="lc4,lc3,lc2,q4_0,q8_0")
    p.add_argument("--arithmetic", default="int8")
    for name, value in (("prompt", 512), ("tokens", 32), ("rounds", 3), ("threads", 2)):
        p.add_argument("--" + name, type=int, default=value)
    p.add_argument("--shape", choices=["1b"], default="1b")
    p.add_argument("--json", type=pathlib.Path)
    p.add_argument("--make", action="store_true")
    a = p.parse_args()
    a.model.mkdir(parents=True, exist_ok=True)
    if not (a.model / "prompt.txt").exists():
        bf16.make_model(a, a.model / "model")
    kinds = ["bf16", *a.types.split(",")]
    files = {kind: make_file(a, kind) for kind in kinds}
    if a.llama_bench:
        files["bf16.gguf"] = a.model / "model.gguf"
        if not files["bf16.gguf"].exists():
            bf16.run(a.tern, "export", a.model / "model", "--format", "gguf", "--output", files["bf16.gguf"])
    if a.make:
        return
    turns = []
    for kind, path in files.items():
        if kind != "bf16.gguf":
            turns += [(kind, path, f"tern {x}".strip(), x) for x in (a.arithmetic.split(",") if kind != "bf16" else [""])]
        if a.llama_bench and path.is_file():
            turns.append((kind, path, "llama.cpp", None))
    read = lambda file: float(bf16.run(a.read_rate, file, a.threads, 5).split()[2])
    rows = {(kind, who): [] for kind, _, who, _ in turns}
    for number in range(a.rounds):
        for kind, path, who, arithmetic in turns if number % 2 == 0 else turns[::-1]:
            size, file = bytes_of_a_token(path)
            before = read(file)
            row = run_llama(a, path) if arithmetic is None else run_tern(a, path, arithmetic)
            row["read_gb_per_s"] = (before + read(file)) / 2
            row["share"] = row["decode"] * size / 1e9 / row["read_gb_per_s"]
            rows[kind, who].append(row)
            print(json.dumps({"round": number, "type": kind, "who": who, "token_bytes": size, **row}), file=sys.stderr, flush=True)
    print("| type | by | MB a token | decoded tokens/s | of a plain read | prompt tokens/s |")
    print("|---|---|---|---|---|---|")
    for (kind, who), r in rows.items():
        mid = lambda key: statistics.median(x[key] for x in r)
        ends = lambda key: f"{mid(key):.1f} ({min(x[key] for x in r):.1f} – {max(x[key] for x in r):.1f})"
        size = bytes_of_a_token(files[kind])[0]
        print(f"| {kind} | {who} | {size / 1e6:,.0f} | {ends('decode')} | {100 * mid('share'):.0f} % | {ends('prompt')} |")
    if a.json:
        a.json.write_text(json.dumps([{"type": k, "who": w, "rounds": r} for (k, w), r in rows.items()], indent=1) + "\n")


if __name__ == "__main__":
    main()
