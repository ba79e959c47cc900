"""Models with random weights for the inference benchmarks: their config.json, their tensors, and what a pass reads.

SHAPES[name] is (configuration, tensors): `config` as config.json, `tensors` a list of (name, shape, share), where share is the
part of the tensor that one token's pass reads: 1, top-k over the number of experts for an expert's, 0 for the embedding.
"""
import json, subprocess, sys

VOCABULARY = 32000
# Llama 1.1B (TinyLlama's shape); Llama 2's 7B; Mixtral 8x7B's with half the width and 4 of 32 layers; Qwen3-30B-A3B's, 3 of 48 layers;
# DeepSeek-V2-Lite's, 4 of 27 layers, the first without experts.
MODELS = {
    "1b": dict(family="llama", width=2048, layers=22, heads=32, kv_heads=4, head=64, hidden=5632),
    "7b": dict(family="llama", width=4096, layers=32, heads=32, kv_heads=32, head=128, hidden=11008),
    "mixtral": dict(family="mixtral", width=2048, layers=4, heads=32, kv_heads=8, head=64, hidden=7168, experts=8, top_k=2),
    "qwen3-moe": dict(family="qwen3_moe", width=2048, layers=3, heads=32, kv_heads=4, head=128, hidden=768, experts=128, top_k=8),
    "deepseek": dict(family="deepseek_v2", width=2048, layers=4, heads=16, kv_heads=16, head=64, hidden=10944, experts=64, top_k=6,
                     expert=1408, shared=2, rank=512, plain=128, value=128),
}


def config_of(m):
    c = {"model_type": m["family"], "vocab_size": VOCABULARY, "hidden_size": m["width"], "intermediate_size": m["hidden"],
         "num_hidden_layers": m["layers"], "num_attention_heads": m["heads"], "num_key_value_heads": m["kv_heads"],
         "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
         "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
    if m["family"] == "mixtral":
        c |= {"num_local_experts": m["experts"], "num_experts_per_tok": m["top_k"], "sliding_window": None}
    if m["family"] == "qwen3_moe":
        c |= {"num_experts": m["experts"], "num_experts_per_tok": m["top_k"], "moe_intermediate_size": m["hidden"],
              "norm_topk_prob": True, "head_dim": m["head"], "decoder_sparse_step": 1, "mlp_only_layers": []}
    if m["family"] == "deepseek_v2":
        c |= {"n_routed_experts": m["experts"], "num_experts_per_tok": m["top_k"], "moe_intermediate_size": m["expert"],
              "n_shared_experts": m["shared"], "q_lora_rank": None, "kv_lora_rank": m["rank"], "qk_nope_head_dim": m["plain"],
              "qk_rope_head_dim": m["head"], "v_head_dim": m["value"], "first_k_dense_replace": 1, "topk_method": "greedy"}
    return c


def tensors_of(m):
    width, heads, kv, head = m["width"], m["heads"], m["kv_heads"], m["head"]

    def mlp(place, hidden, share=1.0, names=("gate_proj", "up_proj", "down_proj")):
        for name, shape in zip(names, ((hidden, width), (hidden, width), (width, hidden))):
            yield f"{place}.{name}.weight", shape, share

    yield "model.embed_tokens.weight", (VOCABULARY, width), 0
    for i in range(m["layers"]):
        layer = f"model.layers.{i}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            yield layer + norm + ".weight", (width,), 1
        if "rank" in m:
            yield layer + "self_attn.q_proj.weight", (heads * (head + m["plain"]), width), 1
            yield layer + "self_attn.kv_a_proj_with_mqa.weight", (m["rank"] + head, width), 1
            yield layer + "self_attn.kv_a_layernorm.weight", (m["rank"],), 1
            yield layer + "self_attn.kv_b_proj.weight", (heads * (m["plain"] + m["value"]), m["rank"]), 1
            yield layer + "self_attn.o_proj.weight", (width, heads * m["value"]), 1
        else:
            for name, rows in (("q", heads), ("k", kv), ("v", kv)):
                yield f"{layer}self_attn.{name}_proj.weight", (rows * head, width), 1
            yield layer + "self_attn.o_proj.weight", (width, heads * head), 1
        if m["family"] == "qwen3_moe":
            for name in ("q_norm", "k_norm"):
                yield f"{layer}self_attn.{name}.weight", (head,), 1
        if "experts" not in m or ("shared" in m and i == 0):
            yield from mlp(layer + "mlp", m["hidden"])
            continue
        mixtral = m["family"] == "mixtral"
        place = layer + ("block_sparse_moe" if mixtral else "mlp")
        yield place + ".gate.weight", (m["experts"], width), 1
        for e in range(m["experts"]):
            yield from mlp(f"{place}.experts.{e}", m.get("expert", m["hidden"]), m["top_k"] / m["experts"],
                           ("w1", "w3", "w2") if mixtral else ("gate_proj", "up_proj", "down_proj"))
        if "shared" in m:
            yield from mlp(place + ".shared_experts", m["shared"] * m["expert"])
    yield "model.norm.weight", (width,), 1
    yield "lm_head.weight", (VOCABULARY, width), 1


def size_of(shape):
    return shape[0] * (shape[1] if len(shape) > 1 else 1)


def read_by_a_token(name, head=True):
    """Parameters that one token's pass reads (and multiplies by); head=False: of a prompt's token, whose logits nobody wants."""
    return sum(size_of(shape) * share for tensor, shape, share in tensors_of(MODELS[name]) if head or tensor != "lm_head.weight")


def write_model(name, folder):
    """config.json and model.safetensors of random bf16 numbers: cut from one pool at shifting places, which is quick."""
    import numpy

    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config_of(MODELS[name])))
    header, offset = {}, 0
    for tensor, shape, _ in tensors_of(MODELS[name]):
        size = 2 * size_of(shape)
        header[tensor] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pool = numpy.random.default_rng(1).standard_normal(1 << 24, numpy.float32) * 0.02
    pool = (pool.view(numpy.uint32) >> 16).astype(numpy.uint16)
    at = 0
    with open(folder / "model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor, shape, _ in tensors_of(MODELS[name]):
            left = size_of(shape)
            if "norm" in tensor:
                file.write(numpy.full(left, 0x3F80, numpy.uint16).tobytes())  # 1
                continue
            while left:
                piece = pool[at : at + left]
                file.write(piece.tobytes())
                left -= piece.size
                at = (at + piece.size + 7919) % pool.size


def write_with_tokenizer(name, model, tokenizer, after=lambda weights: None):
    """write_model with a tokenizer's files beside it, unless it is there. after: changes the written weights."""
    if (model / "model.safetensors").exists():
        return
    model.parent.mkdir(parents=True, exist_ok=True)
    write_model(name, model)
    after(model / "model.safetensors")
    copy_tokenizer(tokenizer, model)


def copy_tokenizer(tokenizer, model):
    for file in ("tokenizer.json", "tokenizer_config.json"):
        if (tokenizer / file).exists():
            (model / file).write_bytes((tokenizer / file).read_bytes())


def generate(tern, model, tokens, *options, threads=0):
    """What `tern generate --json` says of sampled answers of `tokens` tokens to a prompt of one."""
    command = [tern, "generate", model, "--prompt", "a", "--max-tokens", tokens, "--ignore-eos", "--temperature", 1, "--seed", 1, "--json", *options]
    if threads:
        command += ["--threads", threads]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr[-3000:]}")
    return json.loads(done.stdout)
