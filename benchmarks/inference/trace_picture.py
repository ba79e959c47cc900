#!/usr/bin/env python3
"""Draws a trace of `tern generate --trace` as an SVG: what the disk and the cores did for three tokens, as predicted and as measured.

Rows: disk and compute, predicted above measured (a trace of weights that fit has the measured run alone). Time in ms. Reads that run at the
same time are drawn over each other. A line marks where each token begins.

usage: trace_picture.py TRACE.json PICTURE.svg [TITLE]
"""
import json
import sys

LEFT, WIDTH, ROW, GAP, TOP = 150, 720, 22, 6, 44
COLOURS = {"predicted": "#1b6ca8", "measured": "#c8553d"}
RESOURCES = ("disk", "compute")


def read_runs(path):
    """{run: {resource: [(begin, end) in ms]}}, and {run: [begin of each token's first FORWARD]}."""
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    threads = {(e["pid"], e["tid"]): e["args"]["name"].split()[0] for e in events if e["name"] == "thread_name"}  # "disk 2" is the disk's
    runs = {name: {resource: [] for resource in RESOURCES} for name in COLOURS if name in names.values()}
    tokens = {name: {} for name in runs}
    for e in events:
        if e["ph"] != "X" or names.get(e["pid"]) not in runs:
            continue
        run, resource = names[e["pid"]], threads.get((e["pid"], e["tid"]))
        if resource not in RESOURCES:
            continue
        begin, end = e["ts"] / 1000, (e["ts"] + e["dur"]) / 1000
        if end > begin:
            runs[run][resource].append((begin, end))
        if resource == "compute":
            micro = e["args"]["micro"]
            tokens[run][micro] = min(begin, tokens[run].get(micro, begin))
    return runs, {run: sorted(begins.values()) for run, begins in tokens.items()}


def joined(spans, least):
    """Spans in order; those nearer to each other than `least` become one."""
    out = []
    for begin, end in sorted(spans):
        if out and begin <= out[-1][1] + least:
            out[-1][1] = max(out[-1][1], end)
        else:
            out.append([begin, end])
    return out


def tick_step(longest):
    """A round number of ms, for four to ten ticks."""
    step = 1e-3
    for factor in [2, 2.5, 2] * 12:
        if longest / step <= 8:
            break
        step *= factor
    return step


def picture(runs, tokens, title):
    rows = [(resource, run) for resource in RESOURCES for run in runs if runs[run][resource]]
    longest = max((end for run in runs.values() for spans in run.values() for _, end in spans), default=1)
    height = TOP + len(rows) * (ROW + GAP) + 44
    bottom = TOP + len(rows) * (ROW + GAP)

    def x(ms):
        return LEFT + ms / longest * WIDTH

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 30}" height="{height}" '
           'font-family="sans-serif" font-size="12">',
           f'<rect width="{LEFT + WIDTH + 30}" height="{height}" fill="white"/>',
           f'<text x="{LEFT}" y="24" font-size="15">{title}</text>']
    for i, (resource, run) in enumerate(rows):
        y = TOP + i * (ROW + GAP)
        out.append(f'<text x="{LEFT - 8}" y="{y + 15}" text-anchor="end" fill="{COLOURS[run]}">{resource}, {run}</text>')
        spans = joined(runs[run][resource], longest / WIDTH / 4)
        shape = "".join(f"M{x(begin):.1f} {y}h{max(x(end) - x(begin), 0.3):.1f}v{ROW}h-{max(x(end) - x(begin), 0.3):.1f}z" for begin, end in spans)
        out.append(f'<path d="{shape}" fill="{COLOURS[run]}" fill-opacity="0.75"/>')
        for begin in tokens[run]:
            out.append(f'<path d="M{x(begin):.1f} {y - 2}V{y + ROW + 2}" stroke="#222"/>')
    out.append(f'<path d="M{LEFT} {bottom}H{LEFT + WIDTH}" stroke="#888"/>')
    step = tick_step(longest)
    for i in range(int(longest / step) + 1):
        out.append(f'<text x="{x(i * step):.1f}" y="{bottom + 16}" text-anchor="middle">{i * step:g}</text>')
    out.append(f'<text x="{LEFT + WIDTH / 2}" y="{bottom + 34}" text-anchor="middle">ms; black: a token begins</text>')
    return "\n".join(out) + "\n</svg>\n"


def escaped(text):
    return text.replace("&", "&amp;").replace("<", "&lt;")


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__.strip().splitlines()[-1])
    runs, tokens = read_runs(sys.argv[1])
    if not runs:
        sys.exit(f"{sys.argv[1]}: holds neither a predicted nor a measured run")
    title = sys.argv[3] if len(sys.argv) == 4 else "Three tokens: the disk and the cores"
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(picture(runs, tokens, escaped(title)))


if __name__ == "__main__":
    main()
