#!/usr/bin/env python3
"""Our exports reload in transformers and give our logits.

`python dev/golden/check_export.py BUILD/model/model_test`: the test program exports models from scratch and one of every golden
file of every family (sharded), this script loads each with transformers and compares logits, ||delta|| / ||ours|| <= 1e-5.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file
from transformers import AutoModel, AutoModelForCausalLM

from families import ENCODERS, Encoder

SEQ = 16
IMPLEMENTATION = {"family-falcon_rw": "sdpa"}  # its eager attention adds the bias by distance twice


def main(test_program):
    failed = 0
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([test_program, "--gtest_filter=*AShardedExportReloadsToTheSameLogits*:*WrittenAndReadAgain*"],
                       check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "TERN_EXPORT_DIR": out})
        folders = sorted(p for p in pathlib.Path(out).iterdir() if p.is_dir())
        families = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "families"
        assert len(folders) >= 4 + len(list(families.glob("*.json"))), f"{len(folders)} exports"
        for folder in folders:
            encoder = folder.name.removeprefix("family-") in ENCODERS  # no head: rows meet the embedding, as in families.py
            kind, more = (AutoModel, {"add_pooling_layer": False}) if encoder else (AutoModelForCausalLM, {})
            model, info = kind.from_pretrained(folder, attn_implementation=IMPLEMENTATION.get(folder.name, "eager"),
                                               output_loading_info=True, **more)
            assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"], info
            ours = load_file(folder.with_name(folder.name + ".logits.safetensors"))
            model = Encoder(model.eval()) if encoder else model.eval()
            with torch.no_grad():
                tokens = ours["tokens"].long()
                theirs = model(tokens if tokens.dim() == 2 else tokens.reshape(-1, SEQ), use_cache=False).logits
            theirs = theirs.reshape(ours["logits"].shape)
            error = ((theirs - ours["logits"]).norm() / ours["logits"].norm()).item()
            ok = error <= 1e-5
            failed += not ok
            print(f"{folder.name}: {len(list(folder.glob('*.safetensors')))} shards, relative error {error:.2e} {'ok' if ok else 'FAILED'}")
    print(f"{len(folders)} exports, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
