"""What the studies of this folder share: the program, run in the study's own folder, which belongs to one set of settings."""
import json
import subprocess
import sys
import zlib


class TernRuns:
    """`args` has `tern`, the program, and `work`, the folder it runs in."""

    def __init__(self, args):
        self.args = args

    def tern(self, *words):
        done = subprocess.run([str(self.args.tern), *map(str, words)], capture_output=True, text=True, cwd=self.args.work)
        if done.returncode != 0:
            sys.exit(f"tern {' '.join(map(str, words))}\n{done.stderr[-2000:]}")
        return done.stdout


def identity_of(model) -> str:
    """A model folder's name, with a checksum of its weights."""
    return f"{model.name} {zlib.crc32((model / 'model.safetensors').read_bytes()):08x}"


class KnownRuns:
    """Results by the names of their runs; with a file also those of other folders with the same settings, a line of JSON each."""

    def __init__(self, path, settings: dict):
        self.path, self.settings, self.results = path, settings, {}
        if path and path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                try:
                    row = json.loads(line)
                except json.JSONDecodeError:  # cut off by a stop
                    continue
                if row["settings"] == settings:
                    self.results[row["run"]] = row["result"]

    def get(self, run: str):
        return self.results.get(run)

    def add(self, run: str, result: dict) -> None:
        self.results[run] = result
        if self.path:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"run": run, "settings": self.settings, "result": result}) + "\n")


def claim_folder(args, keys: str) -> None:
    """Makes `args.work`, or goes on in it. Exits if what is done there was done with other settings: `keys` of them decide its figures."""
    args.work.mkdir(parents=True, exist_ok=True)
    path, mine = args.work / "settings.json", {key: str(getattr(args, key)) for key in keys.split()}
    if path.exists() and (there := json.loads(path.read_text(encoding="utf-8"))) != mine:
        other = ", ".join(f"{key} {there.get(key)}" for key in mine if there.get(key) != mine[key])
        sys.exit(f"{args.work} has the results of other settings ({other}); name another --work")
    path.write_text(json.dumps(mine, indent=1) + "\n", encoding="utf-8")
