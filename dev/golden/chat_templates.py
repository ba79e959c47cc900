#!/usr/bin/env python3
"""Golden renderings of chat templates by transformers' own function (Jinja2 in its sandbox), at a fixed time.

  dev/golden/chat_templates.py                      writes tests/golden/chat/{conversations,expected,snippets}.json
  TERN_DATA=DIR dev/golden/chat_templates.py        also the hashes of DIR/chat_templates/*.jinja (kept as they are without)
  dev/golden/chat_templates.py --random N SEED FILE N random expressions and what they give, for TERN_JINJA_SNIPPETS=FILE;
                                                    without those whose text shows the address of an object
"""
import copy
import datetime
import json
import multiprocessing
import os
import pathlib
import random
import sys

import jinja2
import transformers.utils.chat_template_utils as utils
from chat_cases import conversations
from chat_snippets import SNIPPETS, VARIABLES, random_snippets

ROOT = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/chat"


class FixedClock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2026, 11, 21, 14, 5, 9)


utils.datetime = FixedClock
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


def fnv1a(data):
    h = 0xCBF29CE484222325
    for b in data:
        h = (h ^ b) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{h:016x}"


def fault(error):
    """The class of an error, as formats/jinja/jinja.h names it, and its words where they are Jinja's own."""
    if isinstance(error, (jinja2.TemplateSyntaxError, SyntaxError)):
        return {"error": "load"}
    if isinstance(error, jinja2.exceptions.SecurityError):
        return {"error": "security", "message": str(error)}
    if isinstance(error, jinja2.UndefinedError):
        return {"error": "undefined", "message": str(error)}
    if type(error) is jinja2.TemplateError:
        return {"error": "raised", "message": str(error)}
    if isinstance(error, (TypeError, jinja2.TemplateRuntimeError)):
        return {"error": "runtime", "message": str(error)}
    if isinstance(error, (RecursionError, OverflowError, MemoryError)):
        return {"error": "limit"}
    return {"error": "runtime"}


def render(template, conversation, mask=False):
    try:
        texts, spans = utils.render_jinja_template(
            conversations=[conversation["messages"]],
            tools=conversation.get("tools"),
            documents=conversation.get("documents"),
            chat_template=template,
            return_assistant_tokens_mask=mask,
            add_generation_prompt=conversation.get("add_generation_prompt", False),
            **{**SPECIAL, **conversation.get("variables", {})},
        )
        return {"text": texts[0], "assistant": spans[0] if mask else []}
    except Exception as error:
        return fault(error)


def hashed(result):
    if "text" not in result:
        return result
    data = result["text"].encode()
    return {"bytes": len(data), "fnv1a": fnv1a(data)}


def snippet_result(source, variables):
    try:
        # a copy: indent and others change lists in place
        return {"text": utils._compile_jinja_template(source).render(**copy.deepcopy(variables))}
    except Exception as error:
        return fault(error)


def snippet_file(cases):
    return {"variables": VARIABLES, "cases": [{"source": s, **snippet_result(s, VARIABLES)} for s in cases]}


def write(path, value):
    text = json.dumps(value, ensure_ascii=False, indent=0, separators=(",", ":"))
    path.write_text(text + "\n", encoding="utf-8")
    print(path, len(text))


def main():
    if sys.argv[1:2] == ["--random"]:
        count, seed, out = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
        mine = snippet_file(random_snippets(random.Random(seed), count))
        for _ in range(3):  # in other processes objects have other addresses, which some texts show, or count letters of
            with multiprocessing.get_context("spawn").Pool(1) as other:
                theirs = other.apply(snippet_file, ([case["source"] for case in mine["cases"]],))
            mine["cases"] = [case for case, same in zip(mine["cases"], theirs["cases"]) if case == same]
        write(pathlib.Path(out), mine)
        print(len(mine["cases"]), "of", count, "render alike in four processes")
        return
    cases = conversations()
    write(ROOT / "conversations.json", cases)
    own = {}
    for path in sorted((ROOT / "templates").glob("*.jinja")):
        source = path.read_text(encoding="utf-8")
        own[path.name] = {name: render(source, c, mask=True) for name, c in cases.items()}
    old = json.loads((ROOT / "expected.json").read_text()) if (ROOT / "expected.json").exists() else {}
    foreign = old.get("data", {})
    if os.environ.get("TERN_DATA"):
        foreign = {}
        for path in sorted((pathlib.Path(os.environ["TERN_DATA"]) / "chat_templates").glob("*.jinja")):
            source = path.read_text(encoding="utf-8")
            foreign[path.name] = {
                "source": fnv1a(source.encode()),
                "conversations": {name: hashed(render(source, c)) for name, c in cases.items()},
            }
    write(ROOT / "expected.json", {"own": own, "data": foreign})
    write(ROOT / "snippets.json", snippet_file(SNIPPETS))
    results = [r for t in foreign.values() for r in t["conversations"].values()]
    print(len(foreign), "templates,", len(results), "renderings,", sum("error" in r for r in results), "of them errors")


if __name__ == "__main__":
    main()
