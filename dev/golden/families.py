#!/usr/bin/env python3
"""Golden files of every family and its variants, by transformers + torch: logits, every gradient, 64 greedy tokens.

Run from the root of the repository with the oracle's Python: `python dev/golden/families.py [NAME ...]`. Writes
tests/golden/families/NAME.json. The files hold no weights: a weight is a function of its name in the file and of its place
(`values`, and the same in model/families_test.cpp), so both sides make them. Of each gradient the file has the norm and its
products with four vectors of ±1, whose differences estimate the norm of a difference; of the logits every row's, and the
last row whole. Nothing here runs at build or test time.
"""
import json
import pathlib
import sys
import tempfile
import types

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests" / "golden" / "families"
BATCH, SEQ, NEW, SIGNS = 2, 12, 64, 4
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)

M32 = np.uint32(0xFFFFFFFF)


def fnv(name):
    h = 2166136261
    for byte in name.encode():
        h = ((h ^ byte) * 16777619) & 0xFFFFFFFF
    return h


def mixed(seed, count):
    """32 bits of each of 0 … count-1 under a seed (the finalizer of MurmurHash3)."""
    x = (np.arange(count, dtype=np.uint64) * 2654435761 + seed) & 0xFFFFFFFF
    x = x.astype(np.uint32)
    with np.errstate(over="ignore"):
        x ^= x >> np.uint32(16)
        x *= np.uint32(0x85EBCA6B)
        x ^= x >> np.uint32(13)
        x *= np.uint32(0xC2B2AE35)
        x ^= x >> np.uint32(16)
    return x


def values(name, shape, middle, spread):
    count = int(np.prod(shape))
    unit = (mixed(fnv(name), count) >> np.uint32(8)).astype(np.float32) / np.float32(1 << 23) - np.float32(1)
    return torch.from_numpy((np.float32(middle) + np.float32(spread) * unit).reshape(shape))


def signs(k, count):
    return (mixed(fnv(f"signs {k}"), count) & 1).astype(np.float64) * 2 - 1


def middle_of(name, shape, family):
    """Weights of norms lie around 1, or around 0 where the family adds 1."""
    norm = len(shape) == 1 and name.endswith("weight")
    return 1.0 if norm and "gemma" not in family else 0.0


SMALL = dict(vocab_size=48, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=128, bos_token_id=None, eos_token_id=None, pad_token_id=None)
T = transformers


def small(**more):
    return {**SMALL, **more}


def old(**more):
    return {k: v for k, v in small(**more).items() if k != "num_key_value_heads"}


def opt(**more):
    sizes = old(ffn_dim=40, dropout=0.0, word_embed_proj_dim=32, **more)
    sizes.pop("intermediate_size")
    return sizes


def bert(**more):
    sizes = old(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **more)
    return {k: v for k, v in sizes.items() if k not in ("bos_token_id", "eos_token_id")}


def bloom(**more):
    return {**dict(vocab_size=48, hidden_size=32, n_layer=2, n_head=4, bos_token_id=None, eos_token_id=None, seq_length=128),
            **more}


def falcon(**more):
    sizes = old(ffn_hidden_size=40, **more)
    sizes.pop("intermediate_size")
    return sizes


def deepseek(**more):
    return small(**{**dict(num_key_value_heads=4, num_hidden_layers=3, moe_intermediate_size=12, n_routed_experts=8,
                           num_experts_per_tok=3, q_lora_rank=10, kv_lora_rank=8, qk_nope_head_dim=6, qk_rope_head_dim=4,
                           v_head_dim=7), **more})


def bigcode(**more):
    return {**dict(vocab_size=48, n_embd=32, n_layer=2, n_head=4, n_positions=128, n_inner=40, resid_pdrop=0.0, embd_pdrop=0.0,
                   attn_pdrop=0.0, bos_token_id=None, eos_token_id=None), **more}


def biogpt(**more):
    return old(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, activation_dropout=0.0, **more)


def dropless(**more):
    return small(attention_dropout=0.0, residual_dropout=0.0, **more)


def sigmoid_experts(**more):
    return small(**{**dict(num_hidden_layers=3, moe_intermediate_size=12, n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=1,
                           first_k_dense_replace=1), **more})


def youtu(**more):
    return small(**{**dict(num_key_value_heads=4, q_lora_rank=10, kv_lora_rank=8, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=7,
                           initializer_range=0.02), **more})


YARN = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 4.0,
        "beta_slow": 1.0, "mscale": 0.7, "mscale_all_dim": 0.9}
UNTRUNCATED = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 4.0,
               "beta_slow": 1.0, "truncate": False}


CASES = {
    "llama2": lambda: T.LlamaConfig(**small(num_key_value_heads=4)),
    "llama3": lambda: T.LlamaConfig(**small(rope_parameters={
        "rope_type": "llama3", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 16,
        "low_freq_factor": 1.0, "high_freq_factor": 4.0})),
    "smollm_tied_biases": lambda: T.LlamaConfig(**small(attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
                                                       num_key_value_heads=1)),
    "mistral_window": lambda: T.MistralConfig(**small(sliding_window=7, head_dim=6)),
    "qwen2": lambda: T.Qwen2Config(**small()),
    "qwen2_tied_windows": lambda: T.Qwen2Config(**small(tie_word_embeddings=True, use_sliding_window=True, sliding_window=5,
                                                        max_window_layers=1)),
    "qwen3": lambda: T.Qwen3Config(**small(head_dim=12)),
    "qwen3_tied_biases": lambda: T.Qwen3Config(**small(head_dim=8, tie_word_embeddings=True, attention_bias=True)),
    "smollm3": lambda: T.SmolLM3Config(**small(num_hidden_layers=4, tie_word_embeddings=True)),
    "smollm3_windows": lambda: T.SmolLM3Config(**small(no_rope_layer_interval=2, use_sliding_window=True, sliding_window=6,
                                                       attention_bias=True, mlp_bias=True)),
    "olmo2": lambda: T.Olmo2Config(**small()),
    "olmo2_biases": lambda: T.Olmo2Config(**small(attention_bias=True, tie_word_embeddings=True, num_key_value_heads=4)),
    "granite": lambda: T.GraniteConfig(**small(embedding_multiplier=3.0, logits_scaling=2.5, residual_multiplier=0.4,
                                               attention_multiplier=0.2, tie_word_embeddings=True)),
    "granite_biases": lambda: T.GraniteConfig(**small(attention_bias=True, mlp_bias=True)),
    "phi3": lambda: T.Phi3Config(**small(sliding_window=9)),
    "phi3_partial_longrope": lambda: T.Phi3Config(**small(
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=256, original_max_position_embeddings=128,
        rope_parameters={"rope_type": "longrope", "rope_theta": 1000.0, "partial_rotary_factor": 0.75,
                         "short_factor": [1 + 0.1 * i for i in range(6)], "long_factor": [2 + i for i in range(6)]})),
    "gemma": lambda: T.GemmaConfig(**small(head_dim=10)),
    "gemma2": lambda: T.Gemma2Config(**small(head_dim=10, sliding_window=6, query_pre_attn_scalar=7,
                                             attn_logit_softcapping=1.5, final_logit_softcapping=3.0)),
    "gemma2_no_caps": lambda: T.Gemma2Config(**small(head_dim=8, sliding_window=4, attn_logit_softcapping=None,
                                                     final_logit_softcapping=None, tie_word_embeddings=False)),
    "gemma3": lambda: T.Gemma3TextConfig(**small(
        head_dim=8, sliding_window=5, query_pre_attn_scalar=8, num_hidden_layers=3,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        rope_parameters={"full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0},
                         "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}})),
    "gpt_neox": lambda: T.GPTNeoXConfig(**old(rope_parameters={"rope_type": "default", "rope_theta": 100.0,
                                                              "partial_rotary_factor": 0.5})),
    "gpt_neox_serial": lambda: T.GPTNeoXConfig(**old(use_parallel_residual=False, attention_bias=False, hidden_act="gelu_new",
                                                     tie_word_embeddings=True)),
    "opt": lambda: T.OPTConfig(**opt()),
    "opt_no_biases": lambda: T.OPTConfig(**opt(enable_bias=False, tie_word_embeddings=False)),
    "bloom": lambda: T.BloomConfig(**bloom()),
    "bloom_six_heads": lambda: T.BloomConfig(**bloom(n_head=6, hidden_size=36, tie_word_embeddings=False)),
    "falcon_7b": lambda: T.FalconConfig(**falcon()),
    "falcon_40b": lambda: T.FalconConfig(**falcon(new_decoder_architecture=True, num_kv_heads=2)),
    "falcon_11b": lambda: T.FalconConfig(**falcon(new_decoder_architecture=True, num_kv_heads=2, num_ln_in_parallel_attn=1,
                                                  bias=True)),
    "falcon_rw": lambda: T.FalconConfig(**falcon(multi_query=False, alibi=True, parallel_attn=False, bias=True)),
    "mixtral": lambda: T.MixtralConfig(**small(num_local_experts=4)),
    "mixtral_window_top3": lambda: T.MixtralConfig(**small(num_local_experts=6, num_experts_per_tok=3, sliding_window=6,
                                                           head_dim=10, tie_word_embeddings=True, hidden_act="gelu")),
    "qwen2_moe": lambda: T.Qwen2MoeConfig(**small(num_experts=6, num_experts_per_tok=2, moe_intermediate_size=20,
                                                  shared_expert_intermediate_size=28)),
    "qwen2_moe_mixed": lambda: T.Qwen2MoeConfig(**small(
        num_hidden_layers=4, num_experts=5, num_experts_per_tok=3, moe_intermediate_size=12, norm_topk_prob=True,
        shared_expert_intermediate_size=16, decoder_sparse_step=2, mlp_only_layers=[3], qkv_bias=False,
        use_sliding_window=True, sliding_window=5, max_window_layers=3)),
    "qwen3_moe": lambda: T.Qwen3MoeConfig(**small(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=12,
                                                  norm_topk_prob=True, head_dim=12)),
    "qwen3_moe_mixed": lambda: T.Qwen3MoeConfig(**small(
        num_hidden_layers=3, num_experts=7, num_experts_per_tok=1, moe_intermediate_size=8, mlp_only_layers=[0],
        head_dim=8, attention_bias=True, use_sliding_window=True, sliding_window=7, tie_word_embeddings=True)),
    "deepseek_v2_lite": lambda: T.DeepseekV2Config(**deepseek(q_lora_rank=None, first_k_dense_replace=1, n_shared_experts=2,
                                                              rope_parameters=YARN)),
    "deepseek_v2": lambda: T.DeepseekV2Config(**deepseek(
        first_k_dense_replace=1, n_shared_experts=1, topk_method="group_limited_greedy", n_group=4, topk_group=2,
        routed_scaling_factor=3.0, attention_bias=True, v_head_dim=10, rope_parameters={**YARN, "mscale": 1.0, "mscale_all_dim": 1.0})),
    "deepseek_v3": lambda: T.DeepseekV3Config(**deepseek(n_group=4, topk_group=2, first_k_dense_replace=1, rope_parameters=YARN)),
    "deepseek_v3_plain": lambda: T.DeepseekV3Config(**deepseek(
        n_group=1, topk_group=1, first_k_dense_replace=0, norm_topk_prob=False, rope_interleave=False, q_lora_rank=None,
        num_nextn_predict_layers=0, tie_word_embeddings=True, routed_scaling_factor=1.5, n_shared_experts=2, v_head_dim=10,
        rms_norm_eps=1e-3)),  # not of the narrow rows' norms
    "gpt_oss": lambda: T.GptOssConfig(**small(num_local_experts=6, num_experts_per_tok=3, head_dim=8, sliding_window=5,
                                              num_hidden_layers=3, rope_parameters=UNTRUNCATED)),
    "gpt_oss_bounds": lambda: T.GptOssConfig(**small(
        num_local_experts=4, num_experts_per_tok=2, head_dim=10, sliding_window=6, attention_bias=False, tie_word_embeddings=True,
        swiglu_limit=0.5, swiglu_alpha=1.3, layer_types=["full_attention", "sliding_attention"],
        rope_parameters={"rope_type": "default", "rope_theta": 100.0})),  # numbers that reach the bounds
    "starcoder2": lambda: T.Starcoder2Config(**dropless(sliding_window=7)),
    "starcoder2_no_biases": lambda: T.Starcoder2Config(**dropless(use_bias=False, tie_word_embeddings=False, num_key_value_heads=4)),
    "gpt_bigcode": lambda: T.GPTBigCodeConfig(**bigcode()),
    "gpt_bigcode_untied": lambda: T.GPTBigCodeConfig(**bigcode(n_inner=None, activation_function="gelu", tie_word_embeddings=False)),
    "internlm3": lambda: T.InternLM3Config(**small(head_dim=10, rope_parameters={"rope_type": "dynamic", "rope_theta": 100.0, "factor": 2.0})),
    "internlm3_biases": lambda: T.InternLM3Config(**small(head_dim=8, attention_bias=True, mlp_bias=True, tie_word_embeddings=True)),
    "exaone": lambda: T.ExaoneConfig(**small()),
    "exaone_llama3": lambda: T.ExaoneConfig(**small(tie_word_embeddings=True, num_key_value_heads=1, rope_parameters={
        "rope_type": "llama3", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 16, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0})),
    "seed_oss": lambda: T.SeedOssConfig(**dropless(head_dim=10)),
    "seed_oss_no_biases": lambda: T.SeedOssConfig(**dropless(head_dim=8, attention_bias=False, mlp_bias=True, tie_word_embeddings=True)),
    "stablelm": lambda: T.StableLmConfig(**small(num_attention_heads=2)),
    "stablelm_parallel": lambda: T.StableLmConfig(**small(use_parallel_residual=True, use_qkv_bias=True, num_attention_heads=2,
                                                          num_key_value_heads=1, tie_word_embeddings=True,
                                                          rope_parameters={"rope_type": "default", "rope_theta": 100.0,
                                                                           "partial_rotary_factor": 0.5})),
    "olmo3": lambda: T.Olmo3Config(**small(num_hidden_layers=4, sliding_window=5, rope_parameters={
        "full_attention": {**UNTRUNCATED, "truncate": True}, "sliding_attention": {"rope_type": "default", "rope_theta": 50.0}})),
    "olmo3_biases": lambda: T.Olmo3Config(**small(sliding_window=6, attention_bias=True, num_key_value_heads=4, tie_word_embeddings=True,
                                                  layer_types=["full_attention", "sliding_attention"])),
    "exaone4": lambda: T.Exaone4Config(**small(num_hidden_layers=4, sliding_window=5, head_dim=10)),
    "exaone4_no_windows": lambda: T.Exaone4Config(**small(sliding_window=None, head_dim=8, tie_word_embeddings=True,
                                                            layer_types=["full_attention"] * 2)),
    "youtu": lambda: T.YoutuConfig(**youtu()),
    "youtu_plain": lambda: T.YoutuConfig(**youtu(q_lora_rank=None, rope_interleave=False, attention_bias=True, v_head_dim=10,
                                                 tie_word_embeddings=False)),
    "biogpt": lambda: T.BioGptConfig(**biogpt()),
    "biogpt_untied": lambda: T.BioGptConfig(**biogpt(tie_word_embeddings=False, hidden_act="relu")),
    "olmoe": lambda: T.OlmoeConfig(**small(num_experts=6, num_experts_per_tok=2)),
    "olmoe_biases": lambda: T.OlmoeConfig(**small(num_experts=5, num_experts_per_tok=3, norm_topk_prob=True, attention_bias=True,
                                                  tie_word_embeddings=True, num_key_value_heads=4)),
    "dots1": lambda: T.Dots1Config(**sigmoid_experts(sliding_window=None, norm_topk_prob=True, routed_scaling_factor=2.5,
                                                     n_shared_experts=2, head_dim=10)),
    "dots1_windows": lambda: T.Dots1Config(**sigmoid_experts(
        sliding_window=5, layer_types=["full_attention", "sliding_attention", "full_attention"], first_k_dense_replace=0, n_group=4,
        topk_group=2, attention_bias=True, tie_word_embeddings=True, head_dim=8)),
    "glm4_moe": lambda: T.Glm4MoeConfig(**sigmoid_experts(attention_bias=True, head_dim=12, num_mtp_layers=0)),
    "glm4_moe_groups": lambda: T.Glm4MoeConfig(**sigmoid_experts(
        n_group=2, topk_group=1, norm_topk_prob=False, routed_scaling_factor=1.5, n_shared_experts=2, head_dim=8, num_mtp_layers=0,
        tie_word_embeddings=True, rope_parameters={"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 1.0})),
    "helium": lambda: T.HeliumConfig(**small(head_dim=8)),
    "helium_biases": lambda: T.HeliumConfig(**small(head_dim=8, attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
                                                    num_key_value_heads=4)),
    "ernie4_5": lambda: T.Ernie4_5Config(**small(head_dim=10)),
    "ernie4_5_biases": lambda: T.Ernie4_5Config(**small(head_dim=8, use_bias=True, tie_word_embeddings=False, num_key_value_heads=1)),
    "glm": lambda: T.GlmConfig(**small(head_dim=12)),
    "glm_no_biases": lambda: T.GlmConfig(**small(head_dim=8, attention_bias=False, tie_word_embeddings=True, rope_parameters={
        "rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 1.0})),
    "glm4": lambda: T.Glm4Config(**small(head_dim=12)),
    "glm4_no_biases": lambda: T.Glm4Config(**small(head_dim=8, attention_bias=False, num_key_value_heads=1)),
    "vaultgemma": lambda: T.VaultGemmaConfig(**small(head_dim=10, sliding_window=6, query_pre_attn_scalar=7,
                                                     attn_logit_softcapping=1.5, final_logit_softcapping=3.0)),
    "cwm": lambda: T.CwmConfig(**small(bos_token_id=1, eos_token_id=2, head_dim=10, sliding_window=5, num_hidden_layers=3,
                                       layer_types=["full_attention", "sliding_attention", "sliding_attention"], rope_parameters={
                                           "rope_type": "llama3", "rope_theta": 100.0, "factor": 4.0,
                                           "original_max_position_embeddings": 16, "low_freq_factor": 1.0, "high_freq_factor": 4.0})),
    "iquestcoder": lambda: T.IQuestCoderConfig(**small(head_dim=10)),
    "iquestcoder_biases": lambda: T.IQuestCoderConfig(**small(head_dim=8, attention_bias=True, mlp_bias=True, tie_word_embeddings=True)),
    "gpt2": lambda: T.GPT2Config(vocab_size=48, n_embd=32, n_layer=2, n_head=4, n_positions=128, n_inner=40, resid_pdrop=0.0,
                                 embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=None, eos_token_id=None),
}


class Encoder(torch.nn.Module):
    """BERT has no next token: here its rows meet the table of its embedding, which gives every weight a gradient. No tokens
    are generated. The second half of each sequence is of the second kind of segment."""

    def __init__(self, bert):
        super().__init__()
        self.bert = bert

    def forward(self, tokens, use_cache=False):
        kinds = torch.zeros_like(tokens)
        kinds[:, tokens.shape[1] // 2:] = 1
        rows = self.bert(tokens, token_type_ids=kinds).last_hidden_state
        out = types.SimpleNamespace()
        out.logits = rows @ self.bert.embeddings.word_embeddings.weight.T
        return out

    def save_pretrained(self, folder):
        self.bert.save_pretrained(folder)


ENCODERS = {"bert": lambda: T.BertConfig(**bert()),
            "bert_three_types": lambda: T.BertConfig(**bert(type_vocab_size=3, hidden_act="gelu_new"))}
CASES.update(ENCODERS)


# Falcon's eager attention of 5.23 adds its bias by distance twice (once in the mask, once itself); its default adds it once.
IMPLEMENTATION = {"falcon_rw": "sdpa"}


def make(name):
    config = CASES[name]()
    attention = config._attn_implementation = IMPLEMENTATION.get(name, "eager")
    torch.manual_seed(0)

    def from_config():
        if name in ENCODERS:
            return Encoder(T.BertModel(config, add_pooling_layer=False).eval())
        return T.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()

    def from_folder(folder):
        if name in ENCODERS:
            return Encoder(T.BertModel.from_pretrained(folder, dtype=torch.float32, attn_implementation=attention,
                                                       add_pooling_layer=False).eval())
        return T.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation=attention).eval()

    model = from_config()
    family = config.model_type
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        config_text = (pathlib.Path(folder) / "config.json").read_text()
        saved = load_file(pathlib.Path(folder) / "model.safetensors")
        tensors, spreads = {}, {}
        for key, tensor in saved.items():
            middle = middle_of(key, tensor.shape, family)
            spreads[key] = [middle, 0.35]
            tensors[key] = values(key, tuple(tensor.shape), middle, 0.35)
        save_file(tensors, pathlib.Path(folder) / "model.safetensors", metadata={"format": "pt"})
        model = from_folder(folder)

    tokens = torch.from_numpy((mixed(fnv(name), BATCH * SEQ) % config.vocab_size).astype(np.int64).reshape(BATCH, SEQ))
    logits = model(tokens, use_cache=False).logits
    flat = logits[:, :-1].reshape(-1, logits.shape[-1])
    loss = torch.nn.functional.cross_entropy(flat, tokens[:, 1:].reshape(-1))
    loss.backward()

    def products(tensor):
        x = tensor.detach().double().numpy().reshape(-1)
        return [float(np.linalg.norm(x))] + [float(x @ signs(k, x.size)) for k in range(SIGNS)]

    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p.grad if p.grad is not None else torch.zeros_like(p))
    with tempfile.TemporaryDirectory() as folder:  # names of the file for the gradients too
        model.save_pretrained(folder)
        gradients = load_file(pathlib.Path(folder) / "model.safetensors")
        for key in [k for k in gradients if k.endswith("e_score_correction_bias")]:
            del gradients[key]  # not trained
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "config.json").write_text(config_text)
        save_file(tensors, pathlib.Path(folder) / "model.safetensors", metadata={"format": "pt"})
        model = from_folder(folder)
    prompt = tokens[:1]
    with torch.no_grad():
        sequence, gap = prompt.clone(), 1e9
        for _ in range(0 if name in ENCODERS else NEW):  # without a cache: the definition
            row = model(sequence, use_cache=False).logits[0, -1]
            top = torch.topk(row, 2).values
            gap = min(gap, float(top[0] - top[1]))
            sequence = torch.cat([sequence, row.argmax().reshape(1, 1)], dim=1)
    numbers = lambda xs: [float(f"{x:.9g}") for x in xs]
    golden = {
        "config": json.loads(config_text),
        "tensors": {k: {"shape": list(t.shape), "middle": spreads[k][0], "spread": spreads[k][1]} for k, t in tensors.items()},
        "tokens": tokens.tolist(),
        "loss": loss.item(),
        "logits": [numbers(products(row)) for row in logits.reshape(-1, logits.shape[-1])],
        "last_logits": numbers(logits[-1, -1].tolist()),
        "gradients": {k: numbers(products(g)) for k, g in gradients.items()},
        "greedy": sequence[0, SEQ:].tolist(),
        "smallest_gap": gap,
    }
    if name in ENCODERS:
        golden["types"] = [0] * (SEQ // 2) + [1] * (SEQ - SEQ // 2)
    (OUT / f"{name}.json").write_text(json.dumps(golden, sort_keys=True) + "\n")
    print(name, f"loss {loss.item():.5f}", f"gap {gap:.2g}", (OUT / f"{name}.json").stat().st_size, "bytes", flush=True)


if __name__ == "__main__":
    print("torch", torch.__version__, "transformers", transformers.__version__)
    for case in sys.argv[1:] or CASES:
        make(case)
