#!/usr/bin/env python3
"""What --memory allows, and what a run says it takes "at most", beside what is resident, over shapes of data.

    dev/faults/memory_shapes.py build/release/bin/tern [--limits 64,192] [--megabytes 40] [--seconds 30] [--only SHAPE,…] [--verbs VERB,…]

Each verb reads each shape of about so many megabytes (`line-of-1-gb` is what it says) under each limit in MiB. A run ends well, or refuses
with 2, 3 or 4 (usage, does not fit, a bad file), or is stopped after --seconds; whatever it does, its peak of resident memory (wait4) is within
--memory, and where it says what it takes at most (--json) within that. A line for each verb and shape; exit code 1 if anything was
more. The folder of texts is below TMPDIR and takes 1.5 GB."""
import argparse
import json
import os
import pathlib
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading

MIB = 1 << 20


def environment(root):
    return dict(os.environ, XDG_CACHE_HOME=str(root / "cache"), OMP_WAIT_POLICY="passive", OMP_NUM_THREADS="1")


def repeated(size, piece):
    """Bytes of about `size`, a megabyte at a time."""
    part = piece * max(1, MIB // len(piece))
    for _ in range(max(1, size // len(part))):
        yield part


def random_words(size):
    draw = random.Random(5)
    for _ in range(max(1, size // MIB)):
        yield "".join("%x " % draw.getrandbits(44) for _ in range(MIB // 12)).encode()


def json_line(size, piece, begin='{"text": "', end='"}\n'):
    yield begin.encode()
    yield from repeated(size, piece)
    yield end.encode()


def shapes(size):
    prose = b"It was a bright cold day in April, and the clocks were striking thirteen. "
    values = b"1,"
    return {
        "prose.txt": repeated(size, prose + b"\n"),
        "line-of-1-gb.txt": repeated(1 << 30, prose),
        "no-blank.txt": repeated(size, b"brightcoldday,"),
        "one-letter.txt": repeated(size, b"a"),
        "blanks.txt": repeated(size, b" "),
        "empty-lines.txt": repeated(size, b"\n"),
        "short-lines.txt": repeated(size, b"a\n"),
        "short-documents.txt": repeated(size, b"a\n<|endoftext|>\n"),
        "distinct-words.txt": random_words(size),
        "ideographs.txt": repeated(size, "一二三四五六七八九十".encode()),
        "no-utf8.txt": repeated(size, b"ab\xff\xc3"),
        "short-no-utf8.txt": repeated(1, b"ab\xff\xc3"),  # a mebibyte: read whatever the memory is, unless much is done with it
        "long-line.jsonl": json_line(size, prose),
        "long-line-no-blank.jsonl": json_line(size, b"brightcoldday,"),
        "escapes.jsonl": json_line(size, b"\\u4e00\\n"),
        "short-lines.jsonl": repeated(size, b'{"text": "a"}\n'),
        "values.jsonl": json_line(size, values, '{"text": "a", "list": [', "1]}\n"),
        "conversation.jsonl": json_line(size, b'{"role":"user","content":"a"},{"role":"assistant","content":"b"},', '{"messages": [',
                                        '{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}\n'),
        "completions.jsonl": repeated(size, b'{"prompt": "a", "completion": "b"}\n'),
    }


def verbs(root):
    m, tok = str(root / "m" / "model"), str(root / "tok")

    def at(name, *words):
        return lambda path: [w.replace("@", str(path)) for w in words] if name(path.suffix) else None

    def any_kind(_):
        return True

    return {
        "train": at(any_kind, "train", str(root / "config.json"), "--from-scratch", "--tokenizer", tok, "--data", "@", "--seq", "16", "--batch", "2",
                    "--steps", "2", "--warmup-steps", "0", "--resume", "never", "--output", str(root / "run"), "--threads", "1",
                    "--invalid-utf8", "replace", "--chat-template", str(root / "chat.jinja"), "--json"),
        "tokenize": at(any_kind, "tokenize", tok, "--input", "@", "--output", str(root / "ids")),
        "tokenize-json": at(any_kind, "tokenize", tok, "--input", "@", "--output", str(root / "ids.json"), "--json"),
        "decode": at(lambda s: s == ".ids", "tokenize", tok, "--decode", "--input", "@", "--output", str(root / "text")),
        "pack": at(any_kind, "tokenize", tok, "--pack", "--input", "@", "--output", str(root / "packed"), "--invalid-utf8", "replace"),
        "tokenize-train": at(any_kind, "tokenize", "--train", "--input", "@", "--vocab-size", "300", "--output", str(root / "new"), "--invalid-utf8", "replace"),
        "generate": at(any_kind, "generate", m, "--prompt-file", "@", "--max-tokens", "2", "--threads", "1", "--json"),
        "generate-prompts": at(lambda s: s != ".txt", "generate", m, "--prompts", "@", "--max-tokens", "2", "--threads", "1"),
        "eval": at(any_kind, "eval", m, "--data", "@", "--threads", "1", "--json"),
        "eval-start": at(any_kind, "eval", m, "--data", "@", "--max-tokens", "2000", "--threads", "1", "--json"),
        "eval-llamacpp": at(lambda s: s == ".txt", "eval", m, "--data", "@", "--convention", "llamacpp", "--max-tokens", "2000", "--threads", "1", "--json"),
        "eval-task": at(lambda s: s != ".txt", "eval", m, "--task", "@", "--threads", "1", "--json"),
        "embed": at(any_kind, "embed", m, "--input", "@", "--pooling", "mean", "--truncate", "--threads", "1", "--output", str(root / "v.npy"), "--json"),
    }


def more_files(size):
    """Shapes of files that one verb alone reads."""
    return {
        "ids.ids": ("decode", repeated(size, b"99 ")),
        "prompts.jsonl": ("generate-prompts", repeated(size, b'"a"\n')),
        "task.jsonl": ("eval-task", (b'{"prompt": "a%d", "choices": ["b", "c"], "answer": 0}\n' % i for i in range(size // 52))),
        "task-of-answers.jsonl": ("eval-task", (b'{"prompt": "a%d", "answer": "b", "max_tokens": 1}\n' % i for i in range(size // 46))),
    }


def run(words, root, seconds):
    """Exit code (None: stopped), peak resident bytes, standard output, standard error."""
    with open(root / "out", "wb") as out, open(root / "err", "wb") as err:
        child = subprocess.Popen(words, cwd=root, stdout=out, stderr=err, env=environment(root))
    timer = threading.Timer(seconds, child.kill)
    timer.start()
    _, status, used = os.wait4(child.pid, 0)
    timer.cancel()
    child.returncode = os.waitstatus_to_exitcode(status)
    code = None if child.returncode == -signal.SIGKILL else child.returncode
    return code, used.ru_maxrss * 1024, (root / "out").read_text(errors="replace"), (root / "err").read_text(errors="replace")


def said(text):
    """What the run said it takes at most, or None."""
    try:
        told = json.loads(text)
    except ValueError:
        return None
    if "predicted_bytes" in told and "total" in told["predicted_bytes"]:
        return told["predicted_bytes"]["total"]
    memory = told.get("memory", {})
    return memory["predicted_bytes"] + memory["program_bytes"] if "predicted_bytes" in memory else None


def prepare(tern, root):
    (root / "few.txt").write_text("".join(f"line {i} of the first text, with words: it was a bright cold day.\n" for i in range(1500)))
    (root / "config.json").write_text(json.dumps(dict(model_type="llama", vocab_size=300, hidden_size=32, intermediate_size=48,
                                                      num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=64)))
    (root / "chat.jinja").write_text("{% for m in messages %}{{ m.role }}:{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}"
                                     "{% else %}{{ m.content }}{% endif %}\n{% endfor %}")
    for words in (["tokenize", "--train", "--input", "few.txt", "--vocab-size", "300", "--output", "tok"],
                  ["train", "config.json", "--from-scratch", "--tokenizer", "tok", "--data", "few.txt", "--seq", "16", "--batch", "2", "--steps", "2",
                   "--output", "m", "--threads", "1"]):
        done = subprocess.run([tern, *words], cwd=root, capture_output=True, text=True, env=environment(root))
        if done.returncode:
            raise SystemExit(f"memory_shapes.py: preparing: {' '.join(words)}: {done.returncode}: {done.stderr}")


def clear(root):
    for name in ("run", "new", "cache"):
        subprocess.run(["rm", "-rf", str(root / name)], check=True)
    for name in ("ids", "ids.json", "packed", "v.npy", "text"):
        (root / name).unlink(missing_ok=True)


def try_one(words, root, limit, seconds):
    """What is printed of it, and whether it was more than it may be."""
    clear(root)
    code, peak, out, err = run([*words, "--memory", f"{limit}MiB"], root, seconds)
    told = said(out) if code == 0 else None
    what = f"{limit}: {peak / MIB:.1f} ({'stopped' if code is None else code}{f', said {told / MIB:.1f}' if told else ''})"
    more = peak > limit * MIB or (told is not None and peak > told)
    wrong = code is not None and (code < 0 or code >= 128 or code in (1, 5))
    if more or wrong:
        what += " <-- MORE" if more else f" <-- WRONG: {err[-300:]}"
    return what, more or wrong


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("tern")
    parse.add_argument("--limits", default="64,192", help="MiB")
    parse.add_argument("--megabytes", type=int, default=40)
    parse.add_argument("--seconds", type=float, default=30)
    parse.add_argument("--only", default="", help="shapes, by commas")
    parse.add_argument("--verbs", default="")
    asked = parse.parse_args()
    tern, size = str(pathlib.Path(asked.tern).resolve()), asked.megabytes * 10**6
    bad = runs = 0
    with tempfile.TemporaryDirectory(prefix="tern-shapes-") as name:
        root = pathlib.Path(name).resolve()
        prepare(tern, root)
        all_verbs = {n: v for n, v in verbs(root).items() if not asked.verbs or n in asked.verbs.split(",")}
        files = [(n, None, made) for n, made in shapes(size).items()] + [(n, v, made) for n, (v, made) in more_files(size).items()]
        for shape, only, made in files:
            if asked.only and shape.split(".")[0] not in asked.only.split(","):
                continue
            path = root / shape
            with open(path, "wb") as out:
                out.writelines(made)
            for verb, words_of in all_verbs.items():
                words = words_of(path)
                if words is None or (only and verb != only):
                    continue
                tried = [try_one([tern, *words], root, int(limit), asked.seconds) for limit in asked.limits.split(",")]
                bad, runs = bad + sum(wrong for _, wrong in tried), runs + len(tried)
                print(f"{shape:26} {verb:17} {' | '.join(what for what, _ in tried)}", flush=True)
            path.unlink()
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{runs} runs, {bad} not as they should be (MiB; this script itself took {own:.0f}, which is the least that is seen)")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
