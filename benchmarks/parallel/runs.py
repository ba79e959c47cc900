"""What the scripts of this folder share: results that outlive a stop, runs of tern on ranks, and what they took."""
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "training"))
from make_case import BATCH, SEQ, make  # noqa: E402, F401

FINISHED, STOPPED = 0, 75  # exit codes of a run; --max-seconds ends it as Ctrl-C would


class Failed(Exception):
    """A run that ended as it should not; the others go on."""


class Results:
    """One line of JSON for each run that was done; a run whose key stands there is not done again. Delete the file to begin anew."""

    def __init__(self, path):
        self.path, self.rows = pathlib.Path(path), {}
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                row = json.loads(line)
                self.rows[row["key"]] = row

    def once(self, key, run):
        if key not in self.rows:
            self.rows[key] = {"key": key, **run()}
            with self.path.open("a") as file:
                file.write(json.dumps(self.rows[key]) + "\n")
        return self.rows[key]

    def tried(self, key, run):
        """None where the run failed; it says why on standard error, and is done again next time."""
        try:
            return self.once(key, run)
        except Failed as e:
            print(f"{key}: {e}", file=sys.stderr)
            return None


class Watch(threading.Thread):
    """The highest resident memory of a process and all below it, added up; pages that they share count for each."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.most, self.over = pid, {}, threading.Event()
        self.start()

    def run(self):
        while not self.over.wait(0.4):
            below, parents = {self.pid}, {}
            for entry in os.scandir("/proc"):
                if entry.name.isdigit():
                    try:
                        text = pathlib.Path(entry.path, "stat").read_text()
                        parents[int(entry.name)] = int(text[text.rindex(")") + 2:].split()[1])
                    except OSError:
                        pass
            for _ in range(4):
                below |= {pid for pid, parent in parents.items() if parent in below}
            for pid in below:
                try:
                    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
                        if line.startswith("VmHWM:"):
                            self.most[pid] = 1024 * int(line.split()[1])
                except OSError:
                    pass

    def end(self):
        self.over.set()
        self.join()
        return sum(self.most.values())


def sent_by(device):
    """Bytes that have left by a network device, headers and all."""
    return int(pathlib.Path(f"/sys/class/net/{device}/statistics/tx_bytes").read_text())


def checked(command, codes=(FINISHED,), env=None):
    """What it printed, its highest memory. Failed where the exit code is another."""
    words = [str(c) for c in command]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})})
    watch = Watch(process.pid)
    out, errors = process.communicate()
    memory = watch.end()
    if process.returncode not in codes:
        raise Failed(f"{' '.join(words)}\nended with {process.returncode}:\n{errors[-2000:]}")
    return out, memory


def train_words(tern, folder, out, seconds, more=()):
    """`tern train` of a case for so many seconds, from scratch. An option in `more` stands in the place of the usual one."""
    usual = {"--data": folder / "data.tokens", "--output": out, "--seq": SEQ, "--batch": BATCH, "--steps": 1000000,
             "--schedule": "constant", "--checkpoint-every": 0, "--log-every": 1, "--max-seconds": seconds}
    more = [str(m) for m in more]
    words = [tern, "train", folder / "config.json", "--from-scratch", "--json"]
    for name, value in usual.items():
        if name not in more:
            words += [name, value]
    return [*map(str, words), *more]


def launched(tern, words, ranks):
    return [str(tern), "launch", "-n", str(ranks), "--", *map(str, words[1:])]


def steps_of(out, tokens=BATCH * SEQ):
    """Seconds of each step but the first two (pages, generated kernels) where there are more; how many there were."""
    rows = [json.loads(line) for line in (out / "logs" / "metrics.jsonl").read_text().splitlines()]
    seconds = [tokens / row["perf/tokens_per_s"] for row in rows if row.get("perf/tokens_per_s")]
    return seconds[2:] or seconds[-1:], len(seconds)


def tern_run(command, out, cache):
    """Seconds a step, the steps' number, memory, bytes that left by the loopback for each step."""
    shutil.rmtree(out, ignore_errors=True)
    before = sent_by("lo")
    printed, memory = checked(command, (STOPPED, FINISHED), {"XDG_CACHE_HOME": str(cache), "OMP_WAIT_POLICY": "passive"})
    steps, all_steps = steps_of(out)
    loss = json.loads(printed)["loss"]
    return {"step_s": statistics.median(steps), "steps": len(steps), "memory_bytes": memory, "loss": loss,
            "wire_bytes": (sent_by("lo") - before) / all_steps}


def middle(rows, name):
    values = [row[name] for row in rows]
    return statistics.median(values), min(values), max(values)


def stamp():
    return time.strftime("%Y-%m-%d %H:%M")
