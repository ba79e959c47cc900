"""The official tests of JSON Schema draft 2020-12, one group a line, for the test of json_schema.cpp.

  git clone https://github.com/json-schema-org/JSON-Schema-Test-Suite     (MIT licence, (c) 2012 Julian Berman)
  python dev/golden/json_schema_suite.py JSON-Schema-Test-Suite [COMMIT] > tests/golden/json_schema/draft2020-12.jsonl

All groups of tests/draft2020-12/*.json but those that need another document (refRemote, vocabulary) or a network. Each line: the file,
the description, the schema, and pairs of a document and whether it is valid. Nothing but white space is changed.
"""
import json
import subprocess
import sys

LEFT_OUT = {"refRemote", "vocabulary"}


def main():
    repository, commit = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "HEAD"

    def git(*words):
        return subprocess.run(["git", "-C", repository, *words], capture_output=True, check=True).stdout.decode()

    folder = "tests/draft2020-12/"
    print(json.dumps({"source": "json-schema-org/JSON-Schema-Test-Suite", "commit": git("rev-parse", commit).strip(),
                      "licence": "MIT, Copyright (c) 2012 Julian Berman"}))
    for path in git("ls-tree", "--name-only", commit, folder).split():
        name = path.removeprefix(folder).removesuffix(".json")
        if not path.endswith(".json") or name in LEFT_OUT:
            continue
        for group in json.loads(git("show", f"{commit}:{path}")):
            print(json.dumps({"file": name, "description": group["description"], "schema": group["schema"],
                              "tests": [[t["data"], t["valid"]] for t in group["tests"]]}, separators=(",", ":")))


if __name__ == "__main__":
    main()
