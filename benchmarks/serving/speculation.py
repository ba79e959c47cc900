#!/usr/bin/env python3
"""What guesses are worth: tokens a second of `tern serve` with and without them, in turns, and whether answers are the same.

    ninja -C build/release tern
    benchmarks/serving/speculation.py [--model DIR] [--draft DIR] [--rounds 5]

Kinds of text: code (this repository's sources), prose (--prose FILE, else the README), repeated (a sentence said eight times).
For each kind, number of users at once, and way of guessing: acceptance, and the median over rounds of the ratio of tokens a second
to those of a server without guesses, which is asked the same right before or after. Exit code 1 where an answer differs; ratios
below --least are marked.
"""
import argparse, http.client, json, os, statistics, sys, threading, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
from limits import ROOT, Server


def pieces(text, count, length):
    """Evenly spread, each beginning with a line."""
    starts = [text.find("\n", i * (len(text) - 2 * length) // count) + 1 for i in range(count)]
    return [text[s:s + length] for s in starts]


def texts(o):
    code = "".join(open(os.path.join(ROOT, name)).read() for name in ("infer/engine.cpp", "serve/server.cpp", "serve/http.cpp"))
    prose = open(o.prose or os.path.join(ROOT, "README.md"), encoding="utf-8").read()
    said = ["The old man looked at the sea, and then he went slowly back to the house. ",
            "She asked him whether the boats were home; he said that two of them were. ",
            "1, 2, 3, 4, 5, 6, 7, 8, 9, 10; ", "It was a dark night, and nobody was on the road. "]
    return {"code": pieces(code, 16, o.characters), "prose": pieces(prose, 16, o.characters),
            "repeated": [said[i % 4] * 8 for i in range(16)]}


def answers(server, prompts, o):
    """Of all at once: the texts, and the tokens a second."""
    out = [None] * len(prompts)

    def ask(i):
        c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
        c.request("POST", "/v1/completions", json.dumps({
            "prompt": prompts[i], "max_tokens": o.max_tokens, "temperature": o.temperature, "seed": i, "ignore_eos": True}))
        out[i] = json.loads(c.getresponse().read())
    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(prompts))]
    begin = time.perf_counter()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    seconds = time.perf_counter() - begin
    return [r["choices"][0]["text"] for r in out], sum(r["usage"]["completion_tokens"] for r in out) / seconds


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--tern", default=os.path.join(ROOT, "build/release/bin/tern"))
    p.add_argument("--model", default=os.path.join(ROOT, "examples/novels-6m"))
    p.add_argument("--draft", default=os.path.join(ROOT, "examples/novels-6m-lc4"))
    p.add_argument("--prose", help="a text file")
    p.add_argument("--characters", type=int, default=400, help="of a prompt")
    p.add_argument("--max-tokens", type=int, default=200)
    p.add_argument("--temperature", type=float, default=0)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--users", type=int, nargs="*", default=[1, 4, 16])
    p.add_argument("--least", type=float, default=0.97)
    o = p.parse_args()
    ways = {"plain": [], "ngram": ["--speculate", "ngram"], "draft": ["--draft", o.draft]}
    common = [o.tern, "serve", o.model, "--port", "0", "--json", "--prefix-cache", "off"]
    servers = {name: Server(common + words) for name, words in ways.items()}
    same = True
    print(f"{'text':10} {'users':>5} {'guesses':8} {'acceptance':>10} {'tokens/s':>9} {'beside plain':>12}")
    for kind, prompts in texts(o).items():
        for users in o.users:
            want, ratios, rates, counts = None, {"ngram": [], "draft": []}, {w: [] for w in ways}, {}
            for w in ("ngram", "draft"):
                counts[w] = servers[w].metrics()
            for number in range(o.rounds + 1):  # the first one is for what is learned as it runs
                round_rates = {}
                for w in list(ways) if number % 2 else reversed(list(ways)):
                    said, round_rates[w] = answers(servers[w], prompts[:users], o)
                    want = want or said
                    if said != want:
                        same = False
                        print(f"ANOTHER ANSWER: {kind}, {users} users, {w}")
                if number == 0:
                    continue
                for w in ways:
                    rates[w].append(round_rates[w])
                for w in ratios:
                    ratios[w].append(round_rates[w] / round_rates["plain"])
            print(f"{kind:10} {users:5} {'plain':8} {'':10} {statistics.median(rates['plain']):9.1f}")
            for w in ratios:
                m = servers[w].metrics()
                guessed, accepted = (m[f"spec_decode_num_{x}_tokens_total"] - counts[w][f"spec_decode_num_{x}_tokens_total"]
                                     for x in ("draft", "accepted"))
                ratio = statistics.median(ratios[w])
                share = f"{100 * accepted / guessed:.0f} % of {guessed:.0f}" if guessed else "none"
                print(f"{kind:10} {users:5} {w:8} {share:>14} {statistics.median(rates[w]):9.1f} {ratio:8.3f}"
                      f"{'  BELOW' if ratio < o.least else ''}", flush=True)
    for s in servers.values():
        s.end()
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
