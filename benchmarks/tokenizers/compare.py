#!/usr/bin/env python3
"""MB of text per CPU second on one thread: tern, Hugging Face tokenizers and tiktoken, in turns.

Usage, in the root of the repository:  benchmarks/tokenizers/compare.py TIME_ENCODE DATA WORK [--rounds N] [--only NAME…]
TIME_ENCODE is the built program (ninja time_encode), DATA the folder that TERN_DATA names, WORK an empty folder for the
tokenizers that are made first (a Unigram and a WordPiece of 16,000 pieces, trained on DATA's novels and calibration
texts). CPU time, not wall time: the machine may be busy. A cell is the median of its
rounds; tern encodes each text twice in a process: the first pass finds no word in its cache. Ids are compared too.
Needs: tokenizers, tiktoken, sentencepiece.
"""
import argparse
import json
import lzma
import os
import statistics
import subprocess
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("time_encode"), parser.add_argument("data"), parser.add_argument("work")
parser.add_argument("--rounds", type=int, default=5), parser.add_argument("--only", nargs="*", default=["gpt2", "llama3", "llama2", "unigram", "word_piece"])
args = parser.parse_args()
# After the options: --help answers without them.
import tiktoken
from tiktoken.load import load_tiktoken_bpe
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

TOKENIZERS = args.data + "/tokenizers"


def train(name, path):
    sample = lzma.open(args.data + "/text/books/valid.txt.xz", "rt", encoding="utf-8").read()[:3_000_000].split("\n")
    for file in ("calib_multilingual", "calib_wiki", "calib_c4"):
        sample += open(f"{args.data}/text/{file}.txt", encoding="utf-8").read().split("\n")
    if name == "unigram":
        t = Tokenizer(models.Unigram())
        t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace("  ", " ")])
        t.pre_tokenizer = pre_tokenizers.Metaspace()
        t.decoder = decoders.Metaspace()
        t.train_from_iterator(sample, trainers.UnigramTrainer(vocab_size=16000, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False))
    else:
        t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        t.normalizer = normalizers.BertNormalizer()
        t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        t.decoder = decoders.WordPiece()
        t.train_from_iterator(sample, trainers.WordPieceTrainer(vocab_size=16000, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"], show_progress=False))
    t.save(path)


def byte_ranks(vocab):
    """Byte-level pieces as bytes, for tiktoken; the end-of-text piece apart."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    byte_of = {chr(b): b for b in printable}
    byte_of |= {chr(0x100 + i): b for i, b in enumerate(b for b in range(256) if b not in printable)}
    return {bytes(byte_of[c] for c in piece): rank for piece, rank in vocab.items() if piece != "<|endoftext|>"}


def peers(name):
    """(what tern loads, the HF tokenizer, the tiktoken encoding or None)"""
    if name == "gpt2":
        t = Tokenizer(models.BPE.from_file(f"{TOKENIZERS}/gpt2/vocab.json", f"{TOKENIZERS}/gpt2/merges.txt"))
        t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        ranks = byte_ranks(json.load(open(f"{TOKENIZERS}/gpt2/vocab.json", encoding="utf-8")))
        return f"{TOKENIZERS}/gpt2", t, tiktoken.Encoding("gpt2", pat_str=GPT2, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 50256})
    if name == "llama3":
        folder = args.work + "/llama3"
        if not os.path.exists(folder):
            subprocess.run([args.time_encode, f"{TOKENIZERS}/llama3", "save", folder], check=True)
        ranks = load_tiktoken_bpe(f"{TOKENIZERS}/llama3/tokenizer.model")
        return f"{TOKENIZERS}/llama3", Tokenizer.from_file(folder + "/tokenizer.json"), tiktoken.Encoding("llama3", pat_str=LLAMA3, mergeable_ranks=ranks, special_tokens={})
    if name == "llama2":
        path = f"{TOKENIZERS}/llama2/tokenizer.json"
        return path, Tokenizer.from_file(path), None
    path = f"{args.work}/{name}.json"
    if not os.path.exists(path):
        train(name, path)
    return path, Tokenizer.from_file(path), None


def timed(run):
    start = time.process_time()
    count = run()
    return time.process_time() - start, count


def hf(t, texts, mode):
    if mode == "batch":
        return lambda: sum(len(e.ids) for e in t.encode_batch(texts, add_special_tokens=False))
    return lambda: sum(len(t.encode(s, add_special_tokens=False).ids) for s in texts)


def tik(t, texts, mode):
    if mode == "batch":
        return lambda: sum(map(len, t.encode_ordinary_batch(texts, num_threads=1)))
    return lambda: sum(len(t.encode_ordinary(s)) for s in texts)


os.makedirs(args.work, exist_ok=True)
print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} CPUs; MB per CPU second, medians of {args.rounds} rounds, in turns\n")
print("| tokenizer | text | how | tern | its first pass | HF tokenizers | tiktoken | × HF | × tiktoken | first pass: × HF | × tiktoken |")
print("|---|---|---|---|---|---|---|---|---|---|---|", flush=True)
for name in args.only:
    ours, t, k = peers(name)
    for file in ("wikitext2_test.raw", "calib_multilingual.txt"):
        path = f"{args.data}/text/{file}"
        text = open(path, encoding="utf-8", newline="").read()
        for mode in ("lines", "whole", "batch"):
            texts = [text] if mode == "whole" else [line for line in text.split("\n") if line]
            size = sum(len(s.encode()) for s in texts) / 1e6
            rounds, counts = {}, {}
            for _ in range(args.rounds):
                out = json.loads(subprocess.run([args.time_encode, ours, path, mode, "2"], check=True, capture_output=True, text=True).stdout)
                results = {"tern": (out["best"], out["ids"]), "first": (out["first"], out["ids"]), "hf": timed(hf(t, texts, mode))}
                if k:
                    results["tik"] = timed(tik(k, texts, mode))
                for who, (seconds, count) in results.items():
                    rounds.setdefault(who, []).append(seconds)
                    counts[who] = count
            rate = {who: size / statistics.median(seconds) for who, seconds in rounds.items()}
            ratio = lambda ours, who: f"{rate[ours] / rate[who]:.1f}" if who in rate else "–"
            note = "" if len(set(counts.values())) == 1 else f" ids differ: {counts}"
            print(f"| {name} | {file.split('.')[0]} | {mode} | {rate['tern']:.1f} | {rate['first']:.1f} | {rate['hf']:.2f} | " + (f"{rate['tik']:.1f}" if k else "–") +
                  f" | {ratio('tern', 'hf')} | {ratio('tern', 'tik')} | {ratio('first', 'hf')} | {ratio('first', 'tik')} |{note}", flush=True)
