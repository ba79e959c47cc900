#!/usr/bin/env python3
"""Twelve plans on two ranks of one thread: the step that `tern plan` predicts from `tern profile --ranks 2`, beside the measured one.

    twelve_plans.py [--tern ./tern] [--ranks 2] [--rounds 3] [--seconds 12] [--profile FILE] [--quick]
                    [--results twelve_plans.jsonl]

Replicas, ZeRO 3, tensor groups and two stages, each of the 15M and the 7M model in f32 and the 15M model in bf16. No constant is fitted on
them: a profile measures products, memory and collectives, in each round anew, so that a prediction and its run met the same neighbours.
Wanted: each within 20 %, the median within 10 %. The ranks are threads of one process, which have a core each. A profile or a run that
is in --results is not done again, so a stopped script goes on; of a round that was stopped in the middle the profile is older than its runs.
With --ranks 4, more than this machine has cores, the prediction is the time of the plan's Program on shared cores, and only the order counts: of the pairs of plans of one model and type that are predicted a tenth
or more apart, how many are predicted the way round that was measured. The four plans do about the same work and lie closer, so three with more of it run beside them.
"""
import argparse
import itertools
import json
import pathlib
import shutil
import statistics
import sys
import tempfile

from runs import BATCH, ROOT, SEQ, Failed, Results, checked, make, middle, stamp, tern_run, train_words

CASES = (("15m", "f32"), ("7m", "f32"), ("15m", "bf16"))


def plans_of(ranks):
    """By name what is fixed. Each sees the whole batch in a step."""
    return {"replicas": f"dp={ranks},pp=1,tp=1,cp=1,zero=0,micro-batch={BATCH // ranks}",
            "ZeRO 3": f"dp={ranks},pp=1,tp=1,cp=1,zero=3,micro-batch={BATCH // ranks}",
            "tensor group": f"dp={ranks // 2},pp=1,tp=2,cp=1,zero=0,micro-batch={2 * BATCH // ranks}",
            "two stages": f"dp={ranks // 2},pp=2,tp=1,cp=1,zero=0,micro-batch=4"}


def plans_with_more_work(ranks):
    return {"replicas, recomputed": f"dp={ranks},pp=1,tp=1,cp=1,zero=0,micro-batch={BATCH // ranks},recompute=full",
            "ZeRO 3, one sequence at a time": f"dp={ranks},pp=1,tp=1,cp=1,zero=3,micro-batch=1",
            f"{ranks} stages": f"dp=1,pp={ranks},tp=1,cp=1,zero=0,micro-batch=1"}


def share_cores(toml):
    return "devices_at_once" in toml


def profiled(a):
    if a.profile:
        return {"toml": pathlib.Path(a.profile).read_text()}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "this.toml")
        checked([a.tern, "profile", "--ranks", a.ranks, "--threads", 1, "--output", path, *(["--quick"] if a.quick else [])])
        return {"toml": path.read_text()}


def one(a, case, dtype, fix, toml, work):
    (work / "this.toml").write_text(toml)
    plan = work / "plan.json"
    checked([a.tern, "plan", work / case / "config.json", "--hardware", work / "this.toml", "--batch", BATCH, "--seq", SEQ, "--dtype", dtype,
             "--allow-recompute", "full" if "recompute" in fix else "none", "--schedules", "1f1b", "--fix", fix, "--output", plan])
    predicted = json.loads(plan.read_text())["predicted"]
    words = train_words(a.tern, work / case, work / "out", a.seconds, ["--dtype", dtype, "--threads", 1, "--plan", plan])
    row = tern_run(words, work / "out", work / "cache")
    told = predicted.get("program", predicted) if share_cores(toml) else predicted  # its time knows what waits leave to others
    return {**row, "planned_s": told["step_ps"] * 1e-12, "program_s": predicted.get("program", {}).get("step_ps", 0) * 1e-12}


def pairs_in_order(rows, apart):
    """(pairs of plans of one model and type that are predicted the way round that was measured, all such pairs), of those predicted so far apart."""
    right = pairs = 0
    for one, other in itertools.combinations(rows, 2):
        planned, measured = ([middle(rows[x], what)[0] for x in (one, other)] for what in ("planned_s", "step_s"))
        if one[:2] == other[:2] and max(planned) >= (1 + apart) * min(planned):
            pairs, right = pairs + 1, right + ((planned[0] < planned[1]) == (measured[0] < measured[1]))
    return right, pairs


def tell(ranks, rows):
    print(f"{ranks} ranks × one thread, {stamp()}\n\n| plan | predicted ms | measured ms | predicted / measured | least – most |\n|---|---|---|---|---|")
    errors = []
    for (case, dtype, name), of_plan in rows.items():
        ratio, least, most = middle(of_plan, "ratio")
        errors.append(abs(ratio - 1))
        print(f"| {case} {dtype}, {name} | {1e3 * middle(of_plan, 'planned_s')[0]:.1f} | {1e3 * middle(of_plan, 'step_s')[0]:.1f} | {ratio:.2f} | "
              f"{least:.2f} – {most:.2f} |")
    print(f"\n{sum(e <= 0.2 for e in errors)} of {len(errors)} within 20 %, median {100 * statistics.median(errors):.0f} % (wanted where each rank has a core: all, 10 %)")
    print("{} of {} pairs of one model and type in the order that was measured; ".format(*pairs_in_order(rows, 0)) +
          "of those predicted a tenth or more apart {} of {}".format(*pairs_in_order(rows, 0.1)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tern", default=str(ROOT / "build/release/bin/tern"))
    parser.add_argument("--ranks", type=int, default=2, help="an even divisor of the batch of 16")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=12)
    parser.add_argument("--profile", help="of tern profile --ranks, in the place of one in each round (minutes)")
    parser.add_argument("--quick", action="store_true", help="one round of 4 seconds with a quick profile: whether it runs")
    parser.add_argument("--results", default="twelve_plans.jsonl")
    a = parser.parse_args()
    if a.quick:
        a.rounds, a.seconds = 1, 4
    results, rows = Results(a.results), {}
    work = pathlib.Path(tempfile.mkdtemp())
    try:
        for turn in range(a.rounds):
            toml = results.once(f"{a.ranks} ranks profile {a.profile or 'quick ' * a.quick}round {turn}", lambda: profiled(a))["toml"]
            for case, dtype in CASES:
                make(case, work / case)
                for name, fix in (plans_of(a.ranks) | (plans_with_more_work(a.ranks) if share_cores(toml) else {})).items():
                    key = f"{a.ranks} ranks {case} {dtype} {name} {a.seconds} s round {turn}"
                    row = results.tried(key, lambda c=case, d=dtype, f=fix: one(a, c, d, f, toml, work))
                    if not row:
                        continue
                    rows.setdefault((case, dtype, name), []).append({**row, "ratio": row["planned_s"] / row["step_s"]})
                    print(f"{key}: predicted {1e3 * row['planned_s']:.1f} ms, measured {1e3 * row['step_s']:.1f} ms", file=sys.stderr)
    except Failed as e:
        sys.exit(str(e))
    finally:  # of a script that is stopped what there is
        shutil.rmtree(work, ignore_errors=True)
        if rows:
            tell(a.ranks, rows)


if __name__ == "__main__":
    main()
