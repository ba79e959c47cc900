// The template engine against Jinja2: small templates that touch every part of it, then its bounds.
#include "formats/jinja/jinja.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/process_memory.h"
#include "formats/format_test_support.h"

namespace tern {
namespace {

std::string_view fault_name(JinjaFault fault) {
  switch (fault) {
    case JinjaFault::syntax:
      return "load";
    case JinjaFault::raised:
      return "raised";
    case JinjaFault::undefined:
      return "undefined";
    case JinjaFault::security:
      return "security";
    case JinjaFault::runtime:
      return "runtime";
    case JinjaFault::unsupported:
      return "unsupported";
    case JinjaFault::limit:
      return "limit";
  }
  return "";
}

struct Outcome {
  std::string text, fault, reason;
};

Outcome render_once(const std::string& source, const Json& variables, const JinjaLimits& limits = {}) {
  try {
    const JinjaTemplate t = JinjaTemplate::parse(source, "test");
    std::vector<JinjaVariable> list;
    for (const auto& [name, value] : variables.items()) list.push_back({name, &value, true});
    return {t.render(list, {fixed_time(), limits}).bytes, "", ""};
  } catch (const JinjaError& error) { return {"", std::string(fault_name(error.fault())), error.reason()}; }
}

// What one rendering took.
struct Cost {
  double seconds = 0;
  int64_t bytes = 0;  // 0: not known here
};
Outcome render_counted(const std::string& source, const Json& variables, Cost& cost) {
  const int64_t before = read_process_memory().resident_bytes;
  const bool counted = !kSanitized && reset_peak_resident();
  const auto start = std::chrono::steady_clock::now();
  Outcome got = render_once(source, variables);
  cost.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  cost.bytes = counted ? read_process_memory().peak_resident_bytes - before : 0;
  return got;
}

// Text as ours and as Jinja2's, or the same kind of failure in the same words where the words are Jinja2's own.
void compare_snippets(const Json& file, int least) {
  const Json& variables = file["variables"];
  int same = 0, outside = 0;
  Cost most;
  for (const Json& c : file["cases"]) {
    const std::string source = c["source"];
    Cost cost;
    const Outcome got = render_counted(source, variables, cost);
    ASSERT_LT(cost.seconds, 10) << source;
    ASSERT_LT(cost.bytes, 256 << 20) << source;
    most = {std::max(most.seconds, cost.seconds), std::max(most.bytes, cost.bytes)};
    if (got.fault == "unsupported" || got.fault == "limit") {  // said aloud, never a wrong text
      if (got.fault == "unsupported") ++outside;
      if (got.fault == "limit") ++same;
      continue;
    }
    const std::string want = c.contains("error") ? c["error"].get<std::string>() : "";
    if (want.empty() && c["text"].get<std::string>().find("t 0x") != std::string::npos) {
      ++outside;  // an address of that process
      continue;
    }
    if (got.fault != want) {
      ADD_FAILURE() << source << "\n got " << (got.fault.empty() ? got.text : got.fault + ": " + got.reason)
                    << "\nwant " << c.dump();
      continue;
    }
    if (want.empty()) {
      EXPECT_EQ(got.text, c["text"].get<std::string>()) << source;
    } else if (want == "raised" || want == "undefined" || want == "security") {
      EXPECT_EQ(got.reason, c["message"].get<std::string>()) << source;
    }
    ++same;
  }
  EXPECT_GE(same, least);
  printf("%d alike, %d outside of the subset; slowest %.3f s, largest %.1f MiB\n", same, outside, most.seconds,
         static_cast<double>(most.bytes) / 1048576.0);
}

TEST(Jinja, SnippetsRenderAsJinja2DoesOrFailTheSameWay) {
  compare_snippets(read_json_file(golden("chat/snippets.json")), 300);
}

TEST(Jinja, MarksFollowTheTextOfTheUserThroughEveryOperation) {
  const Json user = "us<er>";
  const auto spans = [&](const std::string& source) {
    const MarkedText t = JinjaTemplate::parse(source, "test").render({{"u", &user, true}, {"v", &user, false}});
    std::string shown;  // user text in brackets
    size_t at = 0;
    for (const TextSpan& s : t.spans(kMarkUser)) {
      shown += t.bytes.substr(at, s.begin - at) + "[" + t.bytes.substr(s.begin, s.end - s.begin) + "]";
      at = s.end;
    }
    return shown + t.bytes.substr(at);
  };
  EXPECT_EQ(spans("a{{ u }}b{{ v }}"), "a[us<er>]bus<er>");
  EXPECT_EQ(spans("{{ 'x' + u + 'y' ~ u ~ u }}"), "x[us<er>]y[us<er>us<er>]");
  EXPECT_EQ(spans("{{ u[1:3] }}{{ u | upper }}{{ u.split('<')[0] }}"), "[s<US<ER>us]");
  EXPECT_EQ(spans("{{ u | replace('s', '<sep>') }}"), "[u]<sep>[<er>]");
  EXPECT_EQ(spans("{{ 'a-b' | replace('-', u) }}"), "a[us<er>]b");
  EXPECT_EQ(spans("{{ {'k': u} | tojson }}"), "{\"k\": \"[us<er>]\"}");
  EXPECT_EQ(spans("{{ ['a', u] | join('|') }}{{ [u] }}"), "a|[us<er>]['[us<er>]']");
  EXPECT_EQ(spans("{{ u | e }}{{ '%s!' % u }}"), "[us&lt;er&gt;us<er>]!");
  EXPECT_EQ(spans("{% set x %}<{{ u }}>{% endset %}{{ x | trim('<') | upper }}"), "[US<ER>]>");
  EXPECT_EQ(spans("{% macro m(a) %}({{ a }}){% endmacro %}{{ m(u) * 2 }}"), "([us<er>])([us<er>])");
  EXPECT_EQ(spans("{% for c in u %}{{ c }},{% endfor %}"), "[u],[s],[<],[e],[r],[>],");
}

TEST(Jinja, GenerationMarksTheBodyWhereverItEndsUp) {
  const auto marked = [](const std::string& source) {
    const MarkedText t = JinjaTemplate::parse(source, "test").render({});
    std::vector<std::string> parts;
    for (const TextSpan& s : t.spans(kMarkGeneration)) parts.push_back(t.bytes.substr(s.begin, s.end - s.begin));
    return parts;
  };
  EXPECT_EQ(marked("a{% generation %}b{% endgeneration %}c{% generation %}d{% endgeneration %}"),
            (std::vector<std::string>{"b", "d"}));
  EXPECT_EQ(marked("{% macro m() %}x{% generation %}y{% endgeneration %}z{% endmacro %}1{{ m() | upper }}2"),
            std::vector<std::string>{"Y"});
  EXPECT_FALSE(JinjaTemplate::parse("a", "t").has_generation_tag());
}

TEST(Jinja, ErrorsNameTheTemplateTheLineAndTheFact) {
  const auto message = [](const std::string& source) -> std::string {
    try {
      const Json m = Json::array();
      JinjaTemplate::parse(source, "chat_template.jinja").render({{"messages", &m, true}});
    } catch (const Error& error) { return error.what(); }
    return "";
  };
  EXPECT_EQ(message("a\nb {% if %}"),
            "chat_template.jinja: line 2: Expected an expression, got 'end of statement block'");
  EXPECT_EQ(message("\n\n{{ messages[0].role }}"), "chat_template.jinja: line 3: list object has no element 0");
  EXPECT_EQ(message("{{ raise_exception('no \x1b') }}"), "chat_template.jinja: line 1: no \\x1b");
  EXPECT_NE(message("{% fro x in y %}").find("unknown tag 'fro'; did you mean 'for'?"), std::string::npos);
  EXPECT_NE(message("{{ 1 | uper }}").find("No filter named 'uper'; did you mean 'upper'?"), std::string::npos);
  EXPECT_NE(message("{% include 'x' %}").find("outside of the Jinja that tern reads"), std::string::npos);
  EXPECT_NE(message("{% if 0 %}{{ 1 | urlize }}{% endif %}").find("the filter 'urlize'"), std::string::npos);
  EXPECT_NE(message("{{ 'a'.translate({}) }}").find("Python's method 'translate'"), std::string::npos);
  const JinjaTemplate t = JinjaTemplate::parse("{% if x %}{{ x | from_json }}{% endif %}", "t");
  ASSERT_EQ(t.notes().size(), 1u);
  EXPECT_NE(t.notes()[0].find("line 1: no filter is named 'from_json'"), std::string::npos);
  EXPECT_TRUE(t.uses("x"));
  EXPECT_FALSE(t.uses("y"));
}

TEST(Jinja, RaisedErrorsAreTheUsersAndTheOthersTheFiles) {
  EXPECT_TRUE(
      throws(ErrorKind::usage, "stop", [] { JinjaTemplate::parse("{{ raise_exception('stop') }}", "t").render({}); }));
  EXPECT_TRUE(
      throws(ErrorKind::bad_file, "'x' is undefined", [] { JinjaTemplate::parse("{{ x.y }}", "t").render({}); }));
  EXPECT_TRUE(throws(ErrorKind::bad_file, "not UTF-8", [] { JinjaTemplate::parse("a\n\xff", "t"); }));
  EXPECT_TRUE(throws(ErrorKind::bad_file, "at most",
                     [] { JinjaTemplate::parse(std::string(kJinjaMaxSourceBytes + 1, 'a'), "t"); }));
}

std::string repeated(std::string_view part, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += part;
  return all;
}

// Templates that want to run for ever, eat all memory, overflow the stack or leave the sandbox.
const std::string kNested =
    "{% set ns = namespace(t=(1,)) %}{% for i in range(60) %}{% set ns.t = (ns.t, ns.t) %}{% endfor %}";

TEST(Jinja, HostileTemplatesStopWithinTheirBounds) {
  const std::string deep = repeated("(", 100'000), many = repeated("{% if 1 %}", 10'000);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{% for i in range(10**9) %}{% endfor %}", "limit"},
      {"{{ range(10**9) | list }}", "limit"},
      {"{{ range(100001) }}", "limit"},
      {"{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "limit"},
      {"{% for i in range(99999) %}{% for j in range(99999) %}{{ i * j }}{% endfor %}{% endfor %}", "limit"},
      {"{% for i in range(99999) if i > 99999 %}{% endfor %}{% for i in range(99999) %}{% for j in range(99999) if "
       "false %}{% endfor %}{% endfor %}",
       "limit"},
      {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "limit"},
      {"{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}", "limit"},
      {"{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}", "limit"},
      {"{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(40) }}", "limit"},
      // hashing walks a tuple of tuples along every way to its leaves
      {kNested + "{{ {ns.t: 1} }}", "limit"},
      {kNested + "{{ [ns.t, 1, ns.t] | unique | list | length }}", "limit"},
      {kNested + "{{ ns.t in {1: 2} }}", "limit"},
      {kNested + "{{ {1: 2}.get(ns.t) }}", "limit"},
      {"{{ 'a' * 10**9 }}", "limit"},
      {"{{ 'a' * 10**30 }}", "limit"},
      {"{{ [0] * 10**9 }}", "limit"},
      {"{{ ('a' * 4000000) ~ ('a' * 4000000) }}", "limit"},
      {"{% set x = 'a' * 1000000 %}{{ x }}{{ x }}{{ x }}{{ x }}{{ x }}", "limit"},
      {"{% set ns = namespace(s='a') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}", "limit"},
      {"{% set ns = namespace(s='a') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}", "limit"},
      {"{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = ns.l + ns.l %}{% endfor %}", "limit"},
      {"{% set ns = namespace(l=[]) %}{% for i in range(99999) %}{% set ns.l = [ns.l] %}{% endfor %}", "limit"},
      {"{% set ns = namespace(d={}) %}{% for i in range(99999) %}{% set ns.d = {'x': ns.d} %}{% endfor %}", "limit"},
      {"{% set ns = namespace(l=[]) %}{% for i in range(99999) %}{% set ns.l = ns.l | map('string') %}{% endfor %}",
       "limit"},
      {"{% set ns = namespace(l='a') %}{% for i in range(99999) %}{% set ns.l = ns.l | map('string') %}{% endfor %}",
       "limit"},
      {"{% set ns = namespace() %}{% for i in range(99999) %}{% for j in range(99999) %}{% set ns.n = "
       "namespace(n=ns.n) %}{% endfor %}{% endfor %}",
       "limit"},
      {"{% set ns = namespace() %}{% for i in range(99999) %}{% set ns.m = ns.m.upper if i % 2 else 'a' %}{% endfor "
       "%}{% for i in range(99999) %}{% for j in range(99) %}{% endfor %}{% endfor %}",
       "limit"},
      {"{% set ns = namespace(keep=[]) %}{% for i in range(99999) %}{% set ns.keep = ns.keep + ['x' * 1000] %}{% "
       "endfor %}",
       "limit"},
      {"{% set x = 'ab' * 1000000 %}{% for i in range(99999) %}{% set y = x | replace('a', 'b') %}{% endfor %}",
       "limit"},
      {"{% set x = 'ab' * 1000000 %}{% for i in range(99999) %}{% set y = x in x %}{% endfor %}", "limit"},
      {"{% set x = 'a' * 2000000 %}{{ (x ~ 'b') in (x ~ x) }}{% for i in range(9999) %}{{ x.find('b') }}{% endfor %}",
       "limit"},
      {"{{ ('a,' * 2000000).split(',') | length }}", "limit"},
      {"{{ ('a ' * 2000000).split() | length }}", "limit"},
      {"{{ ('a' * 2000000) | list | length }}", "limit"},
      {"{{ ('a' * 200000) | replace('', 'b' * 200000) }}", "limit"},
      {"{{ 'a'.center(10**9) }}", "limit"},
      {"{{ 'a' | center(10**9) }}", "limit"},
      {"{{ '%999999999d' % 1 }}", "limit"},
      {"{{ '%.999999999d' % 1 }}", "limit"},
      {"{{ [[1]] | tojson(indent=10**9) }}", "limit"},
      {"{{ ('a\n' * 1000) | indent(100000) }}", "limit"},
      {"{{ [1] | batch(10**9, 0) | list }}", "limit"},
      {"{{ 9 ** 9 ** 9 }}", "limit"},
      {"{{ 10**40 }}", "limit"},
      {"{{ -(2**126) * 8 }}", "limit"},
      {"{% set ns = namespace() %}{% set ns.ns = ns %}{{ ns }}", "limit"},
      {"{% set ns = namespace() %}{% set ns.l = [ns] %}{{ ns.l | tojson }}", "runtime"},
      {"{{ " + deep + "1" + repeated(")", 100'000) + " }}", "limit"},
      {"{{ " + repeated("[", 5000) + repeated("]", 5000) + " }}", "limit"},
      {"{{ " + repeated("not ", 100'000) + "1 }}", "limit"},
      {"{{ " + repeated("-", 100'000) + "1 }}", "limit"},
      {"{{ 1" + repeated(" + 1", 100'000) + " }}", "limit"},
      {"{{ x" + repeated(".a", 100'000) + " }}", "limit"},
      {"{{ x" + repeated("|e", 100'000) + " }}", "limit"},
      {"{{ x" + repeated("()", 100'000) + " }}", "limit"},
      {"{{ x" + repeated(" if x else x", 10'000) + " }}", "limit"},
      {many + repeated("{% endif %}", 10'000), "limit"},
      {repeated("{% for i in [1] %}", 300) + repeated("{% endfor %}", 300), "limit"},
      {"{{ ''.__class__.__mro__[1].__subclasses__() }}", "security"},
      {"{{ [].append(1) }}", "security"},
      {"{{ {}.update({}) }}", "security"},
      {"{{ namespace(__class__=1) }}", "security"},
      {"{% set n = namespace() %}{% set n.__dict__ = 1 %}", "security"},
      {"{{ range.__globals__['os'] }}", "security"},
      {"{{ cycler.__init__.__globals__ }}", "security"},
      {"{{ ('' | attr('__class__')).x }}", "security"},
      {"{{ self.__init__ }}", "unsupported"},
      {"{{ lipsum(1000000) }}", "unsupported"},
      {"{{ '{0.__class__}'.format(1) }}", "unsupported"},
      {"{{ '{:>999999999}'.format(1) }}", "unsupported"},
      {"{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = b %}ok", ""},
      {"{% macro o() %}{% macro i() %}{% endmacro %}{{ i }}{% endmacro %}{% for x in range(999) %}{{ o() }}{% endfor "
       "%}",
       ""},
      {"{% for x in [1, 2] %}{{ loop.changed(loop) }}{% endfor %}", ""},
  };
  const int64_t before = read_process_memory().resident_bytes;
  const bool reset = !kSanitized && reset_peak_resident();
  JinjaLimits limits;
  if (kSanitized) limits.max_work /= 32;
  for (const auto& [source, want] : cases) {
    const std::clock_t begin = std::clock();  // of this process's CPU time: others may have the core
    const Outcome got = render_once(source, Json::object(), limits);
    EXPECT_EQ(got.fault, want) << source.substr(0, 120) << "\n" << got.reason;
    const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    if (std::getenv("TERN_SHOW")) printf("%6.3f s %s\n", seconds, source.substr(0, 100).c_str());
    // Bounds are in steps; this only sees a runaway. AddressSanitizer takes 15 s for two million strings on a slow core.
    EXPECT_LT(seconds, kSanitized ? 60 : 20) << source.substr(0, 120);
  }
  if (reset) { EXPECT_LT(read_process_memory().peak_resident_bytes - before, int64_t{150} << 20); }
}

TEST(Jinja, LimitsAreTheCallers) {
  JinjaLimits limits;
  limits.max_steps = 50;
  EXPECT_EQ(render_once("{% for i in range(40) %}{% endfor %}", Json::object(), limits).fault, "");
  EXPECT_EQ(render_once("{% for i in range(60) %}{% endfor %}", Json::object(), limits).fault, "limit");
  limits = {};
  limits.max_output_bytes = 10;
  EXPECT_EQ(render_once("0123456789", Json::object(), limits).text, "0123456789");
  EXPECT_EQ(render_once("0123456789a", Json::object(), limits).fault, "limit");
}

// markupsafe 3 as Jinja2 3.1 uses it: what a loop takes out of a Markup is a str, what an index takes is one.
TEST(Jinja, CharactersOfASafeTextArePlain) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{{ ('ba'|safe)|sort }}", "['a', 'b']"},
      {"{{ ('ba'|safe)|list }}", "['b', 'a']"},
      {"{{ [('ba'|safe)|first, ('ba'|safe)|min] }}", "['b', 'a']"},
      {"{% for x in 'ba'|safe %}{{ [x] }}{% endfor %}", "['b']['a']"},
      {"{{ [('ba'|safe)|last, ('ba'|safe)[0]] }}", "[Markup('a'), Markup('b')]"},
  };
  for (const auto& [source, want] : cases) EXPECT_EQ(render_once(source, Json::object()).text, want) << source;
}

TEST(Jinja, RangesCountAndFindTheirNumbers) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{{ range(3).count('a') }}", "0"},
      {"{{ [range(3).count(1), range(3).count(1.0), range(3).count(true), range(3).count(3)] }}", "[1, 1, 1, 0]"},
      {"{{ range(2, 9, 3).index(5) }}", "1"},
      {"{{ range(0).count(0) }}", "0"},
  };
  for (const auto& [source, want] : cases) EXPECT_EQ(render_once(source, Json::object()).text, want) << source;
  EXPECT_EQ(render_once("{{ range(3).index(7) }}", Json::object()).fault, "runtime");
  EXPECT_NE(render_once("{{ ({'x': 1} | reverse).x.y }}", Json::object()).reason.find("dict_reversekeyiterator"),
            std::string::npos);
}

// Jinja2 3.1.6 with markupsafe 3.0: a safe text asks for a whole number, whatever the other side is.
TEST(Jinja, ASafeTextIsMultipliedByWholeNumbersAlone) {
  const std::vector<std::array<std::string, 3>> cases = {
      {"{{ ('a'|e) * 2 }}{{ 2 * ('a'|e) }}{{ ('a'|e) * true }}", "", "aaaaa"},
      {"{{ ('a'|e) * x }}", "runtime", "'Undefined' object cannot be interpreted as an integer"},
      {"{{ ('a'|e) * ('Ab c')['k'] }}", "runtime", "'Undefined' object cannot be interpreted as an integer"},
      {"{{ ('a'|e) * 1.5 }}", "runtime", "'float' object cannot be interpreted as an integer"},
      {"{{ 1.5 * ('a'|e) }}", "runtime", "'float' object cannot be interpreted as an integer"},
      {"{{ ('a'|e) * 'b' }}", "runtime", "'str' object cannot be interpreted as an integer"},
      {"{{ x * ('a'|e) }}", "undefined", "'x' is undefined"},
      {"{{ ('a'|e) + x }}", "undefined", "'x' is undefined"},
      {"{{ 'a' * x }}", "undefined", "'x' is undefined"},
      {"{{ 'a' * 1.5 }}", "runtime", "can't multiply sequence by non-int of type 'float'"},
  };
  for (const auto& [source, fault, want] : cases) {
    const Outcome got = render_once(source, Json::object());
    EXPECT_EQ(got.fault, fault) << source;
    EXPECT_EQ(fault.empty() ? got.text : got.reason, want) << source;
  }
}

// What a range's count or index is, is a number like others, and what is asked of it fails as a number does.
TEST(Jinja, WhatARangeCountsIsANumber) {
  EXPECT_EQ(render_once("{% for x in range(3).count('a') %}{{ x }}{% endfor %}", Json::object()).fault, "runtime");
  EXPECT_EQ(render_once("{{ (2 * (range(3)).count('a')).k.l }}", Json::object()).reason,
            "'int object' has no attribute 'k'");
  EXPECT_EQ(render_once("{{ ({'x': 1} | reverse).keys() }}", Json::object()).reason,
            "'dict_reversekeyiterator object' has no attribute 'keys'");
}

TEST(Jinja, WhatGoesBackwardsHasItsTypesName) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"(1, 2)", "reversed"},
      {"[1]", "list_reverseiterator"},
      {"range(3)", "range_iterator"},
      {"{'a': 1}", "dict_reversekeyiterator"},
      {"{'a': 1}.keys()", "dict_reversekeyiterator"},
      {"{'a': 1}.values()", "dict_reversevalueiterator"},
      {"{'a': 1}.items()", "dict_reverseitemiterator"},
  };
  for (const auto& [of, want] : cases)
    EXPECT_EQ(render_once("{{ (" + of + " | reverse).a.b }}", Json::object()).reason,
              "'" + want + " object' has no attribute 'a'");
}

TEST(JinjaSlow, RandomExpressionsRenderAsJinja2Does) {
  const char* path = std::getenv("TERN_JINJA_SNIPPETS");
  if (!path) GTEST_SKIP() << "set TERN_JINJA_SNIPPETS to a file of dev/golden/chat_templates.py --random";
  compare_snippets(read_json_file(path), 1);
}

}  // namespace
}  // namespace tern
