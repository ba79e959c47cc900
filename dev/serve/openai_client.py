#!/usr/bin/env python3
"""Every row of docs/serve.md's table of calls, by the public `openai` client and by curl, against a running `tern serve`.

    python3 -m venv venv && venv/bin/pip install openai jsonschema
    venv/bin/python dev/serve/openai_client.py [--tern ./tern] [--model examples/novels-6m] [ROW …]

Each row is a function below; a row that fails prints its error. Exit code 1 if one did.
"""
import argparse, base64, json, os, re, struct, subprocess, sys, tempfile, time

import jsonschema
import openai

# A template of Hermes' form: messages, tools and calls have places in it.
TEMPLATE = """{%- if tools %}<|system|>
Tools:{% for tool in tools %}
{{ tool | tojson }}{% endfor %}
A call is <tool_call>
{"name": NAME, "arguments": OBJECT}
</tool_call>
{% endif %}{% for m in messages %}<|{{ m.role }}|>
{% if m.content %}{{ m.content }}{% endif %}{% for call in m.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}
{% endfor %}{% if add_generation_prompt %}<|assistant|>
{% endif %}"""
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12},
                                           "age": {"type": "integer"},
                                           "of": {"enum": ["sea", "land"]}},
          "required": ["name", "age", "of"], "additionalProperties": False}
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "Weather of a place.",
                                           "parameters": {"type": "object",
                                                          "properties": {"place": {"type": "string", "maxLength": 8}},
                                                          "required": ["place"], "additionalProperties": False}}}]
TALK = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Where is the sea?"}]


class Context:
    def __init__(self, client, url, name):
        self.client, self.url, self.name = client, url, name

    def chat(self, **more):
        return self.client.chat.completions.create(model=self.name, **{"messages": TALK, "max_tokens": 12, "seed": 3, **more})

    def complete(self, **more):
        return self.client.completions.create(model=self.name, **{"prompt": "The old man", "max_tokens": 12, "seed": 3, **more})

    def curl(self, *arguments):
        out = subprocess.run(["curl", "-sS", "-w", "\n%{http_code}", *arguments], capture_output=True, text=True, check=True)
        body, status = out.stdout.rsplit("\n", 1)
        return int(status), body

    def metric(self, name):
        return json.loads(self.curl(self.url + "/metrics.json")[1])[name]


def refused(status, param, call):
    try:
        call()
    except openai.APIStatusError as error:
        assert error.status_code == status, error
        assert param is None or error.body["param"] == param, error.body
        assert error.body["message"], error.body
        return error
    raise AssertionError(f"not refused with {status}")


# --- the rows ---

def chat(c):
    r = c.chat()
    assert r.object == "chat.completion" and r.choices[0].message.role == "assistant" and r.choices[0].message.content
    assert r.choices[0].finish_reason in ("stop", "length") and r.usage.total_tokens == r.usage.prompt_tokens + r.usage.completion_tokens
    assert c.chat().choices[0].message.content == r.choices[0].message.content, "a seed says the same again"


def chat_stream(c):
    whole = c.chat().choices[0].message.content
    text, usage = "", None
    for piece in c.chat(stream=True, stream_options={"include_usage": True}):
        usage = piece.usage or usage
        if piece.choices and piece.choices[0].delta.content:
            text += piece.choices[0].delta.content
    assert text == whole, (text, whole)
    assert usage.completion_tokens > 0


def completion(c):
    r = c.complete(echo=True)
    assert r.choices[0].text.startswith("The old man") and r.usage.completion_tokens <= 12


def completion_stream(c):
    whole = c.complete().choices[0].text
    assert "".join(p.choices[0].text for p in c.complete(stream=True)) == whole


def completion_list(c):
    r = c.complete(prompt=["The old man", "She"], n=2)
    assert [x.index for x in r.choices] == [0, 1, 2, 3]
    assert r.choices[0].text == c.complete().choices[0].text


def n_samples(c):
    r = c.chat(n=3, temperature=1)
    assert len(r.choices) == 3 and len({x.message.content for x in r.choices}) > 1
    assert r.choices[0].message.content == c.chat(n=1, temperature=1).choices[0].message.content


def sampling(c):
    r = c.complete(temperature=0.8, top_p=0.9, presence_penalty=0.5, frequency_penalty=0.5, logit_bias={"72": -100},
                   stop=["."], extra_body={"top_k": 20, "min_p": 0.01, "repetition_penalty": 1.1})
    assert "." not in r.choices[0].text


def logprobs_chat(c):
    r = c.chat(logprobs=True, top_logprobs=3)
    for t in r.choices[0].logprobs.content:
        assert t.logprob <= 0 and len(t.top_logprobs) == 3 and t.top_logprobs[0].logprob >= t.top_logprobs[2].logprob


def logprobs_completion(c):
    r = c.complete(logprobs=2)
    p = r.choices[0].logprobs
    assert "".join(p.tokens) == r.choices[0].text and len(p.token_logprobs) == len(p.top_logprobs) == len(p.text_offset)


def json_object(c):
    r = c.chat(response_format={"type": "json_object"}, max_tokens=200, temperature=1)
    if r.choices[0].finish_reason == "stop":
        json.loads(r.choices[0].message.content)


def json_schema(c):
    for seed in range(5):
        r = c.chat(seed=seed, max_tokens=200, temperature=1,
                   response_format={"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA, "strict": True}})
        assert r.choices[0].finish_reason == "stop", r
        jsonschema.validate(json.loads(r.choices[0].message.content), SCHEMA)


def grammar(c):
    for seed in range(3):
        r = c.complete(seed=seed, max_tokens=60, temperature=1, extra_body={"grammar": 'root ::= ("yes" | "no") "." [0-9]{2}'})
        assert re.fullmatch(r"(yes|no)\.[0-9]{2}", r.choices[0].text) and r.choices[0].finish_reason == "stop", r
    refused(400, "grammar", lambda: c.complete(extra_body={"grammar": "root ::= nothing"}))


def tools_required(c):
    r = c.chat(tools=TOOLS, tool_choice="required", parallel_tool_calls=False, max_tokens=200)
    assert r.choices[0].finish_reason == "tool_calls"
    for call in r.choices[0].message.tool_calls:
        assert call.function.name == "weather"
        jsonschema.validate(json.loads(call.function.arguments), TOOLS[0]["function"]["parameters"])


def tools_stream(c):
    named = {"type": "function", "function": {"name": "weather"}}
    whole = c.chat(tools=TOOLS, tool_choice=named, max_tokens=200).choices[0].message.tool_calls
    calls = {}
    for piece in c.chat(tools=TOOLS, tool_choice=named, max_tokens=200, stream=True):
        for call in piece.choices[0].delta.tool_calls or [] if piece.choices else []:
            one = calls.setdefault(call.index, {"name": "", "arguments": ""})
            one["name"] += call.function.name or ""
            one["arguments"] += call.function.arguments or ""
    assert [(x["name"], x["arguments"]) for x in calls.values()] == [(x.function.name, x.function.arguments) for x in whole]


def tools_answered(c):
    call = c.chat(tools=TOOLS, tool_choice="required", max_tokens=200).choices[0].message
    talk = TALK + [call.model_dump(exclude_none=True)] + [
        {"role": "tool", "tool_call_id": x.id, "content": "rain"} for x in call.tool_calls]
    assert c.chat(messages=talk, tools=TOOLS, tool_choice="none").choices[0].message.content is not None


def embeddings(c):
    r = c.client.embeddings.create(model=c.name, input=["the old man", "a ship"], encoding_format="float")
    assert len(r.data) == 2 and len(r.data[0].embedding) > 10
    packed = json.loads(c.curl(c.url + "/v1/embeddings", "-d", json.dumps({"input": "a ship", "encoding_format": "base64"}))[1])
    raw = base64.b64decode(packed["data"][0]["embedding"])
    assert list(struct.unpack(f"<{len(raw) // 4}f", raw)) == [struct.unpack("<f", struct.pack("<f", x))[0] for x in r.data[1].embedding]


def models(c):
    assert [m.id for m in c.client.models.list()] == [c.name]
    assert c.client.models.retrieve(c.name).id == c.name


def errors(c):
    refused(404, None, lambda: c.client.models.retrieve("other"))
    refused(404, "model", lambda: c.client.completions.create(model="other", prompt="a"))
    refused(400, "temperature", lambda: c.complete(temperature=7))
    refused(400, "messages[0].role", lambda: c.chat(messages=[{"role": "king", "content": "a"}]))
    refused(400, "nonsense", lambda: c.complete(extra_body={"nonsense": 1}))
    assert refused(400, None, lambda: c.complete(prompt="sea " * 2000)).body["code"] == "context_length_exceeded"
    assert isinstance(refused(400, None, lambda: c.chat(response_format={"type": "json_schema", "json_schema": {
        "name": "a", "schema": {"type": "string", "pattern": "a+"}}})), openai.BadRequestError)


def cancel(c):
    stream = c.complete(max_tokens=400, stream=True, extra_body={"ignore_eos": True})
    next(iter(stream))
    assert c.metric("num_requests_live") == 1
    stream.close()
    begin = time.monotonic()
    while c.metric("num_requests_live") or c.metric("kv_cache_usage_perc"):
        assert time.monotonic() - begin < 1, "its pages are not free"


def curl_completion(c):
    status, body = c.curl(c.url + "/v1/completions", "-d", '{"prompt": "The old man", "max_tokens": 5}')
    assert status == 200 and json.loads(body)["choices"][0]["text"]


def curl_stream(c):
    status, body = c.curl("-N", c.url + "/v1/chat/completions", "-d", json.dumps({"messages": TALK, "max_tokens": 5, "stream": True}))
    assert status == 200 and body.rstrip().endswith("data: [DONE]")


def curl_tokens(c):
    status, body = c.curl(c.url + "/tokenize", "-d", '{"prompt": "the old man", "return_token_strs": true}')
    assert status == 200
    tokens = json.loads(body)["tokens"]
    assert json.loads(c.curl(c.url + "/detokenize", "-d", json.dumps({"tokens": tokens}))[1])["prompt"].strip() == "the old man"


def curl_state(c):
    for path in ("/health", "/ready", "/metrics", "/metrics.json", "/"):
        assert c.curl(c.url + path)[0] == 200, path
    assert c.curl("-X", "DELETE", c.url + "/v1/models")[0] == 405 and c.curl(c.url + "/v2")[0] == 404


def curl_refusals(c):
    assert c.curl(c.url + "/v1/completions", "-d", "{")[0] == 400
    assert c.curl(c.url + "/v1/models", "-H", "Host: evil.example")[0] == 403
    assert c.curl(c.url + "/v1/models", "-H", "Origin: http://evil.example")[0] == 403
    assert c.curl(c.url + "/v1/completions", "-H", "Expect:", "-d", "@" + c.large)[0] == 413


ROWS = [chat, chat_stream, completion, completion_stream, completion_list, n_samples, sampling, logprobs_chat,
        logprobs_completion, json_object, json_schema, grammar, tools_required, tools_stream, tools_answered, embeddings, models,
        errors, cancel, curl_completion, curl_stream, curl_tokens, curl_state, curl_refusals]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tern", default="./tern")
    parser.add_argument("--model", default="examples/novels-6m")
    parser.add_argument("rows", nargs="*")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        template, large = os.path.join(folder, "t.jinja"), os.path.join(folder, "large")
        with open(template, "w") as f:
            f.write(TEMPLATE)
        with open(large, "w") as f:
            f.write("x" * (2 << 20))
        server = subprocess.Popen([asked.tern, "serve", asked.model, "--port", "0", "--json", "--chat-template", template],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            lines = []
            while not lines or lines[-1] != "}":
                lines.append(server.stdout.readline().rstrip("\n"))
                assert lines[-1], "the server did not start"
            ready = json.loads("\n".join(lines))
            client = openai.OpenAI(base_url=ready["url"] + "/v1", api_key="none", max_retries=0)
            c = Context(client, ready["url"], ready["model"])
            c.large = large
            failed = 0
            rows = [r for r in ROWS if not asked.rows or r.__name__ in asked.rows]
            for row in rows:
                try:
                    row(c)
                    print(f"ok      {row.__name__}")
                except Exception as error:  # what fails is told, and the next row runs
                    failed += 1
                    print(f"FAILED  {row.__name__}: {type(error).__name__}: {error}")
            print(f"{len(rows) - failed} of {len(rows)} rows; openai {openai.__version__}")
        finally:
            server.terminate()
            code = server.wait(40)
        assert code == 0, f"the server ended with {code}"
        return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
