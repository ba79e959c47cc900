"""What the studies of this folder share: the program, run in the study's own folder."""
import subprocess
import sys


class TernRuns:
    """`args` has `tern`, the program, and `work`, the folder it runs in."""

    def __init__(self, args):
        self.args = args

    def tern(self, *words):
        done = subprocess.run([str(self.args.tern), *map(str, words)], capture_output=True, text=True, cwd=self.args.work)
        if done.returncode != 0:
            sys.exit(f"tern {' '.join(map(str, words))}\n{done.stderr[-2000:]}")
        return done.stdout
