#!/usr/bin/env python3
"""Two processes on a link of 200 Mbit: how much of the time of messages passes behind compute, and that the bits stay.

    paced.py [--tern ./tern] [--mbit 200] [--cases 15m,7m] [--dtypes f32] [--rounds 3] [--seconds 30] [--quick] [--results paced.jsonl]
    paced.py --tensor [the same options]

Needs root, ip and tc (Debian: iproute2). Makes two network namespaces (tern-a, tern-b) joined by a veth pair, each end shaped by tbf, and
removes them again. Each model is run with its table tied to the head and untied, a rank of one thread in each namespace, 200 Mbit each way.

  step      the median step, with what comes between two Programs
  t         a traced step, from the first instruction to the last of either rank
  t_serial  the longest path of that step's list where a rank waits for each sum before it goes on: passes and update as they were measured,
            sums by their bytes at the link's rate
  t_bound   the same where a sum may pass while the rank computes on: each sum as early as the gradients that it reads are there, one after
            the other on the link; the norm after all of them
  won       (t_serial − t) / (t_serial − t_bound); wanted: 70 %

Bytes are those that left by the link, headers and all. Then six steps are run on the link, and
on two threads of one process: the weights must have the same bits. A run that is in --results is not done again.

--tensor: instead of two replicas a tensor group of two, which exchanges rows in each pass. Each model (untied) trains with its exchanges
in their places and beside products (--tp-comm-overlap), one after the other in each round, with --multiply exact: products by oneDNN are
not cut. link: what the link needs for a step's bytes one way. hidden: (step in place − step beside) / link. The weights of six steps on
the link, in place and beside, and on two threads beside, must have the same bits.
"""
import argparse
import hashlib
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

from runs import FINISHED, ROOT, Failed, STOPPED, Results, checked, make, middle, stamp, steps_of, train_words

SPACES, HOSTS = ("tern-a", "tern-b"), ("10.77.0.1", "10.77.0.2")


def system(*words, check=True):
    subprocess.run([str(w) for w in words], check=check, stderr=None if check else subprocess.DEVNULL)


class Link:
    def __init__(self, mbit):
        self.remove()
        for space in SPACES:
            system("ip", "netns", "add", space)
        system("ip", "link", "add", "tern-v0", "netns", SPACES[0], "type", "veth", "peer", "name", "tern-v1", "netns", SPACES[1])
        for n, (space, host) in enumerate(zip(SPACES, HOSTS)):
            inside = ("ip", "netns", "exec", space)
            system(*inside, "ip", "address", "add", f"{host}/24", "dev", f"tern-v{n}")
            for device in (f"tern-v{n}", "lo"):
                system(*inside, "ip", "link", "set", device, "up")
            system(*inside, "tc", "qdisc", "add", "dev", f"tern-v{n}", "root", "tbf", "rate", f"{mbit}mbit", "burst", "64kb", "latency", "100ms")

    @staticmethod
    def remove():
        for space in SPACES:
            system("ip", "netns", "delete", space, check=False)

    @staticmethod
    def sent():
        text = subprocess.run(["ip", "netns", "exec", SPACES[0], "cat", "/sys/class/net/tern-v0/statistics/tx_bytes"], check=True,
                              capture_output=True, text=True).stdout
        return int(text)


def on_the_link(words, cache, codes):
    processes = []
    for rank, space in enumerate(SPACES):
        env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": HOSTS[0],
               "MASTER_PORT": "29511", "OMP_WAIT_POLICY": "passive", "XDG_CACHE_HOME": str(cache)}
        processes.append(subprocess.Popen(["ip", "netns", "exec", space, *words], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    said = [p.communicate() for p in processes]
    for p, (_, errors) in zip(processes, said):
        if p.returncode not in codes:
            raise Failed(f"{' '.join(words)}\nended with {p.returncode}:\n{errors[-2000:]}")


def spans_of(trace, link_s):
    """The measured spans in the order of the list: (name, seconds of rank 0, of rank 1, seconds on the link or None), and the seconds from the
    first begin to the last end. `link_s`: what the link needs for a step's bytes; a sum has its units' share of it."""
    ranks, begin, end, updated = {}, [], [], {}
    for e in json.loads(trace.read_text())["traceEvents"]:
        if e["ph"] == "X" and e["pid"] % 2 == 1:
            name = e["name"].split()[0]
            ranks.setdefault(e["pid"], []).append((name, e["args"]["unit"], e["tid"] != 0 and name == "REDUCE", e["dur"] / 1e6))
            begin.append(e["ts"] / 1e6), end.append((e["ts"] + e["dur"]) / 1e6)
            if name == "UPDATE" and e["pid"] == 1:
                updated[e["args"]["unit"]] = e["args"]["bytes_moved"]
    spans, before = [], max(updated) + 1
    for (name, unit, is_sum, a), (*_, b) in zip(*ranks.values(), strict=True):
        share = sum(updated[u] for u in range(unit, before)) / sum(updated.values()) if is_sum else None
        spans.append((name, a, b, None if share is None else share * link_s))
        before = unit if is_sum else before
    return spans, max(end) - min(begin)


def times_of(spans):
    """(t_serial, t_bound): each rank computes in its own time; a sum begins when both are there, and takes what the link needs."""
    def longest(beside):
        compute, link = [0.0, 0.0], 0.0
        for name, *own, on_link in spans:
            if on_link is not None:
                link = max(link, *compute) + on_link
                compute = compute if beside else [link, link]
                continue
            if name == "NORM":
                compute = [max(c, link) for c in compute]
            compute = [c + s for c, s in zip(compute, own)]
        return max(link, *compute)
    return longest(False), longest(True)


def one(a, folder, dtype, work):
    out, trace = work / "out", work / "trace.json"
    shutil.rmtree(out, ignore_errors=True)
    trace.unlink(missing_ok=True)
    before = Link.sent()
    words = train_words(a.tern, folder, out, a.seconds, ["--dtype", dtype, "--threads", 1, "--trace", trace])
    on_the_link(words, work / "cache", (STOPPED, FINISHED))
    steps, all_steps = steps_of(out)
    wire = (Link.sent() - before) / all_steps
    spans, traced = spans_of(trace, wire * 8e-6 / a.mbit)
    serial, bound = times_of(spans)
    return {"spans": spans, "step_s": statistics.median(steps), "steps": len(steps), "traced_s": traced, "serial_s": serial, "bound_s": bound,
            "wire_bytes": wire, "won": (serial - traced) / (serial - bound) if serial > bound else 0.0}


def same_bits(a, folder, dtype, work):
    sums = []
    for linked in (True, False):
        out = work / "bits"
        shutil.rmtree(out, ignore_errors=True)
        words = train_words(a.tern, folder, out, 10000, ["--dtype", dtype, "--threads", 1, "--steps", 6])
        if linked:
            on_the_link(words, work / "cache", (FINISHED,))
        else:
            checked([*words, "--ranks", 2], env={"XDG_CACHE_HOME": str(work / "cache")})
        sums.append(hashlib.sha256((out / "model/model.safetensors").read_bytes()).hexdigest())
    return {"same": sums[0] == sums[1]}


GROUP = ["--tensor-parallel", 2, "--multiply", "exact", "--threads", 1]
EXCHANGES = {"in_place": [], "beside": ["--tp-comm-overlap"]}


def in_group(a, folder, dtype, work):
    """A tensor group of two, with its exchanges in their places, then beside products."""
    row, out = {}, work / "out"
    for name, more in EXCHANGES.items():
        shutil.rmtree(out, ignore_errors=True)
        before = Link.sent()
        on_the_link(train_words(a.tern, folder, out, a.seconds, ["--dtype", dtype, *GROUP, *more]), work / "cache", (STOPPED, FINISHED))
        steps, all_steps = steps_of(out)
        row |= {f"{name}_s": statistics.median(steps), f"{name}_steps": len(steps), f"{name}_wire_bytes": (Link.sent() - before) / all_steps}
    link = row["in_place_wire_bytes"] * 8e-6 / a.mbit
    return {**row, "link_s": link, "hidden": (row["in_place_s"] - row["beside_s"]) / link}


def group_bits(a, folder, dtype, work):
    sums = []
    for linked, more in ((True, []), (True, EXCHANGES["beside"]), (False, EXCHANGES["beside"])):
        out = work / "bits"
        shutil.rmtree(out, ignore_errors=True)
        words = train_words(a.tern, folder, out, 10000, ["--dtype", dtype, *GROUP, *more, "--steps", 6])
        if linked:
            on_the_link(words, work / "cache", (FINISHED,))
        else:
            checked([*words, "--ranks", 2], env={"XDG_CACHE_HOME": str(work / "cache")})
        sums.append(hashlib.sha256((out / "model/model.safetensors").read_bytes()).hexdigest())
    return {"same": len(set(sums)) == 1}


def tell_groups(a, rows, bits):
    print(f"{a.mbit} Mbit, a tensor group of two × one thread, {stamp()}\n\n| | in place, ms a step | beside | link | hidden of it | MB sent a step, in place, beside | bits |"
          "\n|---|---|---|---|---|---|---|")
    for name, of_case in rows.items():
        in_place, beside, link = (1e3 * middle(of_case, k)[0] for k in ("in_place_s", "beside_s", "link_s"))
        hidden, least, most = middle(of_case, "hidden")
        sent = ", ".join(f"{middle(of_case, f'{k}_wire_bytes')[0] / 1e6:.1f}" for k in EXCHANGES)
        print(f"| {name} | {in_place:.0f} | {beside:.0f} | {link:.0f} | {100 * hidden:.0f} % ({100 * least:.0f} – {100 * most:.0f}) | {sent} | "
              f"{ {True: 'the same', False: 'OTHERS', None: 'not run'}[bits.get(name)]} |")


def tell(a, rows, bits):
    print(f"{a.mbit} Mbit, two ranks × one thread, {stamp()}\n\n| | step, ms | t | t_serial | t_bound | won | MB sent a step | bits of threads |\n|---|---|---|---|---|---|---|---|")
    for name, of_case in rows.items():
        step, t, serial, bound = (1e3 * middle(of_case, k)[0] for k in ("step_s", "traced_s", "serial_s", "bound_s"))
        won, least, most = middle(of_case, "won")
        print(f"| {name} | {step:.0f} | {t:.0f} | {serial:.0f} | {bound:.0f} | {100 * won:.0f} % ({100 * least:.0f} – {100 * most:.0f}) | "
              f"{middle(of_case, 'wire_bytes')[0] / 1e6:.1f} | { {True: 'the same', False: 'OTHERS', None: 'not run'}[bits.get(name)]} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tern", default=str(ROOT / "build/release/bin/tern"))
    parser.add_argument("--mbit", type=int, default=200)
    parser.add_argument("--cases", default="15m,7m")
    parser.add_argument("--dtypes", default="f32")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--quick", action="store_true", help="one round of the 7M model for 8 seconds: whether it runs")
    parser.add_argument("--tensor", action="store_true", help="a tensor group, its exchanges in their places and beside products")
    parser.add_argument("--results", default="paced.jsonl")
    a = parser.parse_args()
    if a.quick:
        a.rounds, a.seconds, a.cases = 1, 8, "7m"
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("tc"):
        sys.exit("paced.py: needs root, ip and tc (Debian: iproute2)")
    measure, same, print_table, kind = (in_group, group_bits, tell_groups, " tensor group") if a.tensor else (one, same_bits, tell, "")
    results, rows, bits = Results(a.results), {}, {}
    cases = []
    work = pathlib.Path(tempfile.mkdtemp())
    try:
        Link(a.mbit)
        for case in a.cases.split(","):
            for tied in (False,) if a.tensor else (True, False):
                folder = work / f"{case}-{'tied' if tied else 'untied'}"
                make(case, folder)
                config = json.loads((folder / "config.json").read_text())
                (folder / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": tied}))
                cases += [(folder, dtype) for dtype in a.dtypes.split(",")]
        for turn in range(a.rounds):
            for folder, dtype in cases:
                name = f"{folder.name} {dtype}"
                row = results.tried(f"{name}{kind} {a.mbit} Mbit {a.seconds} s round {turn}", lambda f=folder, d=dtype: measure(a, f, d, work))
                if row:
                    rows.setdefault(name, []).append(row)
                    told = ", ".join(f"{1e3 * row[k]:.0f} ms" for k in ("step_s", "in_place_s", "beside_s") if k in row)
                    print(f"{row['key']}: {told}", file=sys.stderr)
        for folder, dtype in cases:
            name = f"{folder.name} {dtype}"
            row = results.tried(f"{name}{kind} {a.mbit} Mbit bits", lambda f=folder, d=dtype: same(a, f, d, work))
            if row:
                bits[name] = row["same"]
    finally:  # of a script that is stopped what there is
        Link.remove()
        shutil.rmtree(work, ignore_errors=True)
        print_table(a, rows, bits)
    sys.exit(0 if len(bits) == len(cases) and all(bits.values()) else 1)


if __name__ == "__main__":
    main()
