"""Small templates that together touch every operator, filter, test, method and scope rule; and random ones."""

VARIABLES = {
    "n": 7, "f": 2.5, "s": "Hello World", "e": "", "u": "straße ΣΑΣ ŉ", "l": [3, 1, 2], "d": {"b": 1, "a": {"x": [1, 2]}, "items": 5},
    "t": True, "z": None, "names": ["bob", "Alice", "carol"], "rows": [{"k": "x", "v": 2}, {"k": "Y", "v": 1}, {"k": "x", "v": 3}],
    "m": [{"role": "user", "content": "hi"}, {"role": "tool", "content": "<b>"}, {"role": "user", "content": ""}],
    "text": "  a\tb \n c  ", "big": 18446744073709551615, "neg": -7, "csv": "a,b,,c",
}

TEXTS = r"""
{{ n + 1 }} {{ n - 10 }} {{ n * 3 }} {{ n / 2 }} {{ n // 2 }} {{ n % 4 }} {{ n ** 2 }} {{ neg // 2 }} {{ neg % 4 }} {{ -n }} {{ +n }}
{{ f + 1 }} {{ f * 2 }} {{ 1 / 3 }} {{ 2 ** 0.5 }} {{ 7.0 // 2 }} {{ -7.5 % 2 }} {{ 1e16 }} {{ 1e15 }} {{ 1e-5 }} {{ 0.0001 }} {{ 123456789.123 }} {{ 2 ** 100 }}
{{ 10 / 0 }}
{{ 10 // 0 }}
{{ 5 % 0 }}
{{ 1.5 / 0 }}
{{ 2 ** -1 }} {{ 0 ** 0 }} {{ -2 ** 2 }} {{ 2 ** 3 ** 2 }}
{{ True + 1 }} {{ true }} {{ none }} {{ None }} {{ False }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1_000 }} {{ 1.5e3 }} {{ 1E2 }}
{{ 'a' 'b' "c" }} {{ 'it\'s' }} {{ "q\"q" }} {{ 'tab\tnl\n.' }} {{ '\x41\u00e9\U0001F600\101' }} {{ '\d\\' }}
{{ 'a' + 'b' }} {{ 'ab' * 3 }} {{ 3 * 'x' }} {{ [1] * 2 }} {{ [1] + [2] }} {{ (1,) + (2,) }}
{{ 'a' + 1 }}
{{ 1 + 'a' }}
{{ [1] + (2,) }}
{{ {} + {} }}
{{ 'a' - 'b' }}
{{ 'a' * 'b' }}
{{ missing + 1 }}
{{ 'a' + missing }}
{{ missing ~ 'x' ~ 1 ~ none ~ true ~ 1.0 ~ [1, 'a'] }}
{{ [1, 'a', "it's", 2.0, none, true, {'k': 'v'}, (1,), (), (1, 2), "\n\t\\\x00é\u200b"] }}
{{ {'a': 1, 'b': [1], 1: 'x', true: 'y', none: 0, 1.5: 2} }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 'a' == 1 }} {{ (1,) == [1] }} {{ 3 >= 3 != 4 }}
{{ 1 < 'a' }}
{{ none < 1 }}
{{ {} < {} }}
{{ 2 in [1, 2] }} {{ 'ell' in s }} {{ 'b' in d }} {{ 'zz' not in d }} {{ 1 in (1, 2) }} {{ missing in [1] }} {{ 1 in missing }}
{{ 1 in 'abc' }}
{{ 1 in 5 }}
{{ not x }} {{ not 1 }} {{ 1 and 2 }} {{ 0 or 'x' }} {{ none or [] or 'z' }} {{ not (1 and 0) }} {{ 1 if 0 else 2 }} {{ 1 if 0 }} {{ 'a' if true if true else 'b' }}
{{ l[0] }} {{ l[-1] }} {{ l[5] }} {{ l[1:] }} {{ l[::-1] }} {{ l[:2] }} {{ l[-2:] }} {{ s[0] }} {{ s[1:4] }} {{ s[::-2] }} {{ u[4] }} {{ u[-3:] }} {{ u[5:1:-1] }} {{ (1,2,3)[1:] }}
{{ l['a'] }} {{ d[0] }} {{ none[0] }} {{ n[0] }} {{ s[99] }} {{ l[1:][0] }} {{ l.0 }}
{{ l[::0] }}
{{ l['a':] }}
{{ d.b }} {{ d.a.x[1] }} {{ d['a']['x'] }} {{ d.nope }} {{ d['items'] }} {{ d.get('b') }} {{ d.get('q', 3) }} {{ d.get('q') }} {{ d.keys() }} {{ d.values() }} {{ d.items() }} {{ d.keys() | list }}
{{ d.nope.more }}
{{ missing.x }}
{{ missing['x'] }}
{{ missing() }}
{{ s.nope() }}
{{ d.nope() }}
{{ none.x }} {{ none.x.y }}
{{ s.__class__ }}
{{ s.__class__.__mro__ }}
{{ ''.__class__.__mro__[1].__subclasses__() }}
{{ d.__init__.__globals__ }}
{{ s['__class__'] }}
{{ (s | attr('__class__')).x }}
{{ namespace.__init__ }}
{{ l.append(1) }}
{{ d.update({}) }}
{{ d.pop('a') }}
{{ l.append }}|{{ l.append is defined }}
{{ l.clear() }}
{{ s._x }} {{ d._x }}
{% set ns = namespace(a=1, b='x') %}{% set ns.a = ns.a + 1 %}{{ ns.a }}{{ ns.b }}{{ ns.c }}{{ ns.c is defined }}
{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a + ns.b }}{{ ns['a'] }}
{% set ns = namespace(_a=1) %}
{% set ns = namespace() %}{% set ns._a = 1 %}
{% set d.x = 1 %}
{% set q.x = 1 %}
{% set ns = namespace() %}{{ ns.x.y }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, d2) = [3, 4] %}{{ c }}{{ d2 }}
{% set a, b = [1] %}
{% set a, b = 'xyz' %}
{% set a, b = 5 %}
{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }} {% endfor %}
{% for i in l %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }} {% endfor %}
{% for i in l %}{{ loop.cycle('a', 'b') }}{{ loop.changed(i > 1) }} {% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}
{% for k in d %}{{ k }}{% else %}none{% endfor %}
{% for x in [] %}{{ x }}{% else %}empty{% endfor %}
{% for x in missing %}{{ x }}{% else %}empty{% endfor %}
{% for x in none %}{% endfor %}
{% for x in 5 %}{% endfor %}
{% for a, b in [[1, 2], [3]] %}{{ a }}{{ b }}{% endfor %}
{% for c in 'héy' %}[{{ c }}]{% endfor %}
{% for i in range(5) if i % 2 %}{{ loop.index }}:{{ i }}/{{ loop.length }} {% endfor %}
{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% else %}E{% endfor %}
{% for i in range(2) %}{% continue %}{% else %}E{% endfor %}
{% for i in range(2) %}{% break %}{% else %}E{% endfor %}
{% set ns = namespace(stop=false) %}{% for i in range(6) if not ns.stop %}{{ i }}{% if i == 2 %}{% set ns.stop = true %}{% endif %}{% endfor %}
{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}
{% for i in [1, 2] %}{% set y = i %}{% endfor %}{{ y is defined }}
{% for i in [1, 2] %}{{ n }}{% set n = i %}{{ n }}{% endfor %}{{ n }}
{% for i in [1] %}{{ n }}{% endfor %}{% set n = 5 %}{{ n }}
{% if true %}{% set q = 1 %}{% endif %}{{ q }}
{% if false %}{% set n = 1 %}{% endif %}{{ n }}
{% for i in [1, 2] %}{% if i == 1 %}{% set w = 'first' %}{% endif %}{{ w }};{% endfor %}
{% for i in [1] %}{% for j in [1, 2] %}{{ loop.index }}{{ i }}{{ j }}{% endfor %}{{ loop.index }}{% endfor %}
{% for i in [1, 2] %}{% set outer = loop %}{% for j in [1, 2] %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}
{% set i = 9 %}{% for i in [1, 2] %}{{ i }}{% endfor %}{{ i }}
{% for loop in [1] %}{{ loop }}{% endfor %}
{% for i in [1] %}{% set loop = 1 %}{% endfor %}
{% macro m(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}|{{ m(1, c=3) }}|{{ m(b=5, a=4) }}|{{ m() }}
{% macro m(a) %}{{ a.x }}{% endmacro %}{{ m() }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, b=2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}
{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}
{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(3) }}
{% macro fact(k) %}{% if k < 2 %}1{% else %}{{ k * (fact(k - 1) | int) }}{% endif %}{% endmacro %}{{ fact(10) }}
{% macro m() %}{{ n }}{{ later }}{% endmacro %}{{ m() }}{% set later = 'L' %}{{ m() }}
{% macro m() %}{% set n = 1 %}{{ n }}{% endmacro %}{{ m() }}{{ n }}
{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}body {{ n }}{% endcall %}
{% macro m() %}{{ caller(1, 2) }}{% endmacro %}{% call(a, b) m() %}{{ a }}-{{ b }}{% endcall %}
{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}
{% macro m(x) %}{{ m.name }}{{ m.arguments }}{{ m.caller }}{% endmacro %}{{ m(1) }}
{{ m(1) }}{% macro m(x) %}{{ x }}{% endmacro %}
{% macro outer() %}{% macro inner(a) %}<{{ a }}>{% endmacro %}{{ inner(1) }}{{ inner(2) }}{% endmacro %}{{ outer() }}
{% set ns = namespace() %}{% macro a(x) %}[{{ x }}]{% endmacro %}{% set ns.f = a %}{{ ns.f(3) }}{{ {'g': a}.g(4) }}
{% set x %}block {{ n }}{% endset %}{{ x }}{{ x | length }}
{% set x | upper | trim %} block {{ n }} {% endset %}[{{ x }}]
{% filter upper %}abc {{ s }}{% endfilter %}
{% filter replace('a', 'b') | upper %}banana{% endfilter %}
{% with a=1, b=n %}{{ a }}{{ b }}{% set a = 2 %}{{ a }}{% endwith %}{{ a }}
{% with %}{% set p = 1 %}{{ p }}{% endwith %}{{ p }}
{% print n, s %}
{% raw %}{{ x }} {% if %}{% endraw %}
{%- raw -%}  x  {%- endraw -%}
{# comment {{ #}a{#- b -#} c {# #}
a {%- if true -%} b {%- endif -%} c
a {{- ' b ' -}} c
a {%+ if true +%} b {%+ endif +%} c
{%- generation %}x{{ n }}{% endgeneration %}
{{ s | upper }} {{ s | lower }} {{ s | title }} {{ 'heLLo wORLD-x (y' | title }} {{ s | capitalize }} {{ u | upper }} {{ u | lower }} {{ u | title }} {{ 'ΑΣ' | lower }}
{{ text | trim }}| {{ text | trim(' ') }}| {{ 'xxaxx' | trim('x') }} {{ n | trim }}
{{ s | replace('o', '0') }} {{ s | replace('o', '0', 1) }} {{ s | replace('', '-') }} {{ 5 | replace(5, 6) }}
{{ s | length }} {{ u | length }} {{ l | length }} {{ d | count }} {{ missing | length }} {{ range(3) | length }}
{{ n | length }}
{{ d | items | length }}
{{ l | first }} {{ l | last }} {{ s | first }} {{ s | last }} {{ d | first }} {{ [] | first }}|{{ [] | last }}|{{ d | last }} {{ range(3) | last }}
{{ l | join }} {{ l | join(', ') }} {{ rows | join('-', attribute='k') }} {{ s | join('.') }} {{ [] | join }}{{ missing | join }} {{ [none, 1.0, true] | join(d='|') }}
{{ l | sort }} {{ l | sort(reverse=true) }} {{ names | sort }} {{ names | sort(case_sensitive=true) }} {{ rows | sort(attribute='v') }} {{ rows | sort(attribute='k,v') }} {{ rows | sort(true, attribute='k') }}
{{ [1, 'a'] | sort }}
{{ d | dictsort }} {{ {'b': 1, 'A': 3, 'c': 2} | dictsort }} {{ {'b': 1, 'A': 3} | dictsort(true) }} {{ {'b': 1, 'A': 3} | dictsort(by='value', reverse=true) }}
{{ {'b': 1} | dictsort(by='x') }}
{{ s | list }} {{ d | list }} {{ 'ab' | list | tojson }}
{{ names | map('upper') | list }} {{ rows | map(attribute='k') | list }} {{ rows | map(attribute='q', default='-') | list }} {{ rows | map(attribute='q') | list }} {{ ['1', '2'] | map('int') | sum }} {{ names | map('replace', 'b', 'x') | join }}
{{ names | map('nope') | list }}
{{ names | map | list }}
{{ [] | map('nope') | list }}{{ none | selectattr('k') | list }}{{ missing | map('upper') | list }}{{ (5 | map('upper')) is iterable }}
{{ 5 | map('upper') | list }}
{{ none | unique | list }}
{{ n[1:] }}
{{ d[:2] }}
{{ z[:2] }}
{{ missing[:2] }}
{{ namespace()[:2] }}
{{ self }}
{{ [0, 1, '', 'a', none] | select | list }} {{ [0, 1, 2] | reject | list }} {{ l | select('odd') | list }} {{ l | reject('equalto', 1) | list }} {{ l | select('>', 1) | list }} {{ l | select('in', [1, 2]) | list }}
{{ rows | selectattr('k', 'equalto', 'x') | list }} {{ rows | rejectattr('k', '==', 'x') | map(attribute='v') | list }} {{ rows | selectattr('q') | list }} {{ rows | selectattr('q', 'defined') | list }} {{ rows | selectattr('v', 'gt', 1) | list | length }}
{{ rows | selectattr | list }}
{{ l | select('nope') | list }}
{{ [1, 2, 1, 'a', 'A'] | unique | list }} {{ ['a', 'A'] | unique(true) | list }} {{ rows | unique(attribute='k') | list }}
{{ l | sum }} {{ rows | sum(attribute='v') }} {{ [] | sum }} {{ [1.5, 2] | sum(start=10) }}
{{ l | max }} {{ l | min }} {{ names | max }} {{ rows | max(attribute='v') }} {{ [] | min }}|{{ [] | max is defined }}
{{ l | reverse | list }} {{ s | reverse }} {{ d | reverse | list }}
{{ 5 | reverse }}
{{ [1, 2, 3, 4, 5] | batch(2) | list }} {{ [1, 2, 3] | batch(2, 'x') | list }}
{{ missing | default('x') }} {{ z | default('x') }} {{ z | default('x', true) }} {{ e | d('y', boolean=true) }} {{ missing | default }}| {{ d.nope | default(n) }}
{{ '42' | int }} {{ 'x' | int }} {{ 'x' | int(7) }} {{ 3.9 | int }} {{ '3.9' | int }} {{ '0x1f' | int(base=16) }} {{ ' 12 ' | int }} {{ none | int }} {{ '1_0' | int }} {{ true | int }} {{ '-5' | int }} {{ 'ff' | int(0, 16) }}
{{ '1.5' | float }} {{ 'x' | float }} {{ n | float }} {{ 'inf' | float }} {{ '1e3' | float }} {{ none | float(2.0) }} {{ 'nan' | float }}
{{ missing | int }}
{{ 2.5 | round }} {{ 3.5 | round }} {{ 2.567 | round(2) }} {{ 2.1 | round(0, 'ceil') }} {{ 2.9 | round(method='floor') }} {{ 7 | round }} {{ 1234 | round(-2) }} {{ 2.675 | round(2) }} {{ -2.5 | round }} {{ 1250 | round(-2) }}
{{ -3 | abs }} {{ neg | abs }} {{ -2.5 | abs }}
{{ 'x' | abs }}
{{ '<a href="x">\'&' | e }} {{ '<b>' | escape }} {{ ('<b>' | safe) + '<i>' }} {{ '<i>' + ('<b>' | safe) }} {{ ('<b>' | safe) ~ '<i>' }} {{ ('<b>' | safe) | upper }} {{ [('x' | safe)] }}
{{ ('<b>%s' | safe) % '<i>' }} {{ ('a' | safe) is string }} {{ ('<' | safe) | e }} {{ ('a<' | safe).replace('a', '<') }} {{ ('a' | safe) * 2 }}
{{ d | tojson }} {{ 'é<>&\'"\n\u2028\x7f' | tojson }} {{ 'é😀' | tojson(ensure_ascii=true) }} {{ [1.0, 1e100, true, none, 'x'] | tojson }} {{ {} | tojson }} {{ [] | tojson }} {{ (1, 2) | tojson }} {{ {1: 2, none: 3, true: 4, 1.5: 5} | tojson }}
{{ d | tojson(indent=2) }}
{{ d | tojson(indent='\t', sort_keys=true) }}
{{ {'b': [], 'a': {}} | tojson(indent=4) }} {{ d | tojson(separators=(',', ':')) }} {{ d | tojson(sort_keys=true) }} {{ [1, 2] | tojson(indent=0) }} {{ 1e16 | tojson }} {{ 'inf' | float | tojson }}
{{ missing | tojson }}
{{ range(3) | tojson }}
{{ d.items() | tojson }}
{{ {(1, 2): 3} | tojson }}
{{ {[1]: 2} }}
{{ s | indent }} {{ 'a\nb\n\nc' | indent(2) }} {{ 'a\nb' | indent(2, true) }} {{ 'a\n\nb' | indent(1, blank=true) }} {{ 'a\nb' | indent('> ', first=true) }}
{{ 'a b c d e f g h' | truncate(9) }} {{ 'a b c d e f g h' | truncate(9, true, '..', 0) }} {{ s | truncate(100) }} {{ s | truncate(8, leeway=0) }}
{{ s | truncate(1) }}
{{ s | center(21) }}| {{ '%s-%05d-%.2f' | format('a', 42, 3.14159) }} {{ '%(a)s' | format(a=1) }} {{ '%s' | format([1]) }}
{{ '%s %r %d %x %X %o %e %g %%' % ('a', 'b', 3, 255, 255, 8, 12345.678, 0.0001) }} {{ '%5s|%-5s|%05d|%+d' % ('a', 'b', 3, 4) }} {{ '%.3s' % 'abcdef' }} {{ '%(k)s' % {'k': 1} }} {{ 'x' % [] }}
{{ '%d' % 'x' }}
{{ '%s %s' % 'a' }}
{{ 'x' % 1 }}
{{ '{} {}'.format(1, 'a') }} {{ '{1}{0}{k}'.format('a', 'b', k=3) }} {{ '{{}}'.format() }}
{{ '{}'.format() }}
{{ s | string }} {{ 5 | string + 'x' }} {{ [1] | string }} {{ none | string }}
{{ d | items | list }} {{ missing | items | list }}
{{ l | items | list }}
{{ d | attr('items') is callable }} {{ d | attr('b') }}
{{ s.upper() }} {{ s.lower() }} {{ s.title() }} {{ "they're bill's" | title }} {{ "they're bill's".title() }} {{ s.swapcase() }} {{ s.capitalize() }} {{ 'ǆ'.capitalize() }} {{ 'ŉx'.upper() }}
{{ text.strip() }}|{{ text.lstrip() }}|{{ text.rstrip() }}|{{ 'xyaxy'.strip('xy') }}|{{ 'xya'.lstrip('yx') }}|{{ 'éaé'.strip('é') }}
{{ text.split() }} {{ csv.split(',') }} {{ csv.split(',', 1) }} {{ csv.rsplit(',', 1) }} {{ 'a  b'.split(' ') }} {{ ''.split() }} {{ ''.split(',') }} {{ ' a b c '.split(none, 1) }} {{ ' a b c '.rsplit(none, 1) }} {{ csv.split(sep=',', maxsplit=2) }} {{ 'aXXbXXc'.rsplit('XX') }}
{{ s.split('') }}
{{ s.split(1) }}
{{ 'a\nb\r\nc\u2028d\n'.splitlines() }} {{ 'a\nb'.splitlines(true) }} {{ csv.partition(',') }} {{ csv.rpartition(',') }} {{ csv.partition('x') }} {{ csv.rpartition('x') }}
{{ s.startswith('He') }} {{ s.endswith(('x', 'ld')) }} {{ s.startswith('W', 6) }} {{ s.endswith('o', 0, 5) }} {{ s.startswith(['a']) }}
{{ s.find('o') }} {{ s.rfind('o') }} {{ s.find('zz') }} {{ s.index('W') }} {{ s.count('o') }} {{ s.count('') }} {{ u.find('Σ') }} {{ s.find('o', 5) }} {{ s.rfind('o', 0, 5) }} {{ 'aaaa'.count('aa') }}
{{ s.index('zz') }}
{{ ','.join(['a', 'b']) }} {{ '-'.join('abc') }} {{ ''.join([]) }}
{{ ','.join([1]) }}
{{ s.replace('l', 'L') }} {{ s.replace('l', 'L', 2) }} {{ s.replace('', '.') }} {{ 'aaa'.replace('aa', 'b') }} {{ s.removeprefix('He') }} {{ s.removesuffix('ld') }} {{ s.removeprefix('x') }}
{{ '5'.isdigit() }} {{ 'a'.isalpha() }} {{ 'a1'.isalnum() }} {{ ' '.isspace() }} {{ 'A'.isupper() }} {{ 'a'.islower() }} {{ ''.isdigit() }} {{ '²'.isdigit() }} {{ '½'.isnumeric() }} {{ '٣'.isdecimal() }} {{ 'Ab Cd'.istitle() }} {{ 'é'.isascii() }}
{{ '7'.zfill(3) }} {{ '-7'.zfill(4) }} {{ 'a'.ljust(3) }}| {{ 'a'.rjust(3, '.') }} {{ 'a'.center(4, '*') }} {{ 'ab'.center(5, '*') }}
{{ l.index(1) }} {{ l.count(3) }} {{ (1, 2).index(2) }} {{ l.copy() }} {{ d.copy() }}
{{ l.index(9) }}
{{ s.encode() }}
{{ n is defined }} {{ missing is defined }} {{ missing is undefined }} {{ d.nope is defined }} {{ z is none }} {{ z is not none }} {{ n is number }} {{ t is number }} {{ t is boolean }} {{ n is integer }} {{ t is integer }} {{ f is float }} {{ s is string }} {{ d is mapping }} {{ l is sequence }} {{ s is sequence }} {{ d is sequence }} {{ l is iterable }} {{ n is iterable }} {{ missing is iterable }} {{ missing is sequence }} {{ range(2) is sequence }} {{ d.items() is sequence }} {{ d.items() is iterable }} {{ (d | items) is sequence }}
{{ 4 is even }} {{ 3 is odd }} {{ 6 is divisibleby 3 }} {{ 6 is divisibleby(4) }} {{ 1 is eq 1 }} {{ 1 is ne 2 }} {{ 1 is lt 2 }} {{ 2 is ge(2) }} {{ 1 is in [1] }} {{ 'a' is in 'abc' }} {{ none is sameas none }} {{ true is sameas true }} {{ 1 is sameas true }} {{ 'A' is upper }} {{ 'a' is lower }} {{ true is true }} {{ 1 is true }} {{ false is false }} {{ 'upper' is filter }} {{ 'nope' is filter }} {{ 'odd' is test }} {{ range is callable }} {{ n is callable }} {{ '<' | e is escaped }} {{ 'a' is escaped }} {{ 2 is not odd }}
{{ 'a' is even }}
{{ n is nope }}
{{ n | nope }}
{% if false %}{{ n | nope }}{% endif %}fine
{% if true %}{{ n | nope }}{% endif %}
{% if false %}{{ n is nope }}{% endif %}{{ 1 if true else (n | nope) }}
{% if true %}{{ n is nope }}{% endif %}
{% if false %}{% for i in l %}{{ i | nope }}{% endfor %}{% endif %}
{{ range(5) | list }} {{ range(2, 5) | list }} {{ range(5, 0, -2) | list }} {{ range(3) }} {{ range(1, 9, 3)[1] }} {{ range(5)[-1] }} {{ 3 in range(5) }} {{ range(0) | list }} {{ range(10)[2:5] }} {{ range(3) == range(0, 3) }}
{{ range(1, 2, 0) }}
{{ range('a') }}
{{ range(1.5) }}
{{ range() }}
{{ dict(a=1, b=2) }} {{ dict([['x', 1]]) }} {{ dict({'a': 1}, b=2) }} {{ dict() }}
{{ dict([1]) }}
{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.current }}
{% set j = joiner('|') %}{% for i in l %}{{ j() }}{{ i }}{% endfor %}
{{ raise_exception('stop: ' ~ n) }}
{{ raise_exception() }}
{{ strftime_now('%Y-%m-%d %H:%M:%S %A %a %B %b %j %y %I %p %d %e %-d %%') }} {{ strftime_now('') }}
{{ strftime_now(5) }}
{% for i in range(3) %}{{ i }}{{ ',' if not loop.last }}{% endfor %}
{% for i in d | items %}{{ i[0] }}{{ loop.length }}{% endfor %}
{% set it = l | map('string') %}{{ it | list }}{{ it | list }}
{{ [1, 2, 3][missing] }}
{{ 'abc'[missing] }}
{{ d[missing] }} {{ d[none] }}
{{ d[l] }}
{{ m | selectattr('role', 'equalto', 'user') | map(attribute='content') | list }}
{{ m[0].role }} {{ m[0]['role'] }} {{ m[0].items() | list }} {{ m[0].items is callable }}
{{ big }} {{ big + 1 }} {{ big | tojson }} {{ -big }}
{{ 1.0 }} {{ 100000.0 }} {{ 1e22 }} {{ 123456789012345680.0 }} {{ 5e-324 }} {{ 0.1 + 0.2 }} {{ -0.0 }} {{ 1.7976931348623157e308 }} {{ 1e400 }}
{{ (1, 2)[0] }} {{ () }} {{ (1,) }} {{ (1) }} {{ [1, 2,] }} {{ {'a': 1,} }}
{{ 1, 2 }}
{{ n if s == 'Hello World' else 'no' }} {{ (n if false) is defined }}
{{ (n if false).x }}
{% if n %}a{% elif s %}b{% else %}c{% endif %} {% if not n %}a{% elif s %}b{% else %}c{% endif %} {% if z %}a{% elif e %}b{% else %}c{% endif %}
{% if missing %}y{% else %}n{% endif %} {% if namespace() %}y{% endif %} {% if range(0) %}y{% else %}n{% endif %} {% if d.items() %}y{% endif %}
{% if missing == none %}y{% else %}n{% endif %} {{ missing == missing2 }} {{ missing != 1 }}
{% if missing > 1 %}{% endif %}
{{ namespace(a=1) }} {{ [namespace(b='x')] }}
{% macro x() %}{% endmacro %}{{ x }}
{{ s | upper | lower | replace('h', 'J') ~ '!' }}
{{ not n in l }} {{ not n == 7 }} {{ -n | abs }} {{ -l[0] }} {{ 'a' ~ 'b' * 2 }} {{ 1 ~ 2 + 3 }} {{ 2 * 3 ~ 4 }} {{ 'x' if 1 == 1 and not 0 else 'y' }}
{{ l[0] + l[1] * l[2] }} {{ (l[0] + l[1]) * l[2] }} {{ l | length - 1 }} {{ l | length > 2 and s is string }} {{ s is string and n is number }} {{ n is not string }}
{{ '%s' % n }}{{ '%s' % none }}{{ '%s' % [1, 2] }}{{ '%d%%' % 5.7 }}
{{ f(*[1], **{'a': 2}) }}
{% macro g(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ g(*[1, 2]) }}{{ g(**{'a': 3, 'b': 4}) }}{{ g(1, *[2]) }}
{{ caller }} {{ loop }} {{ varargs is defined }}
{{ n }
{{ n
{% if n %}
{% endif %}
{% for %}{% endfor %}
{% for x in %}{% endfor %}
{% nope %}
{% set 1 = 2 %}
{% set x.y.z = 2 %}
{{ 'abc }}
{{ a b }}
{{ ) }}
{{ [1, 2 }}
{{ n. }}
{{ n | }}
{{ @ }}
{% macro %}{% endmacro %}
{% macro m(a=1, b) %}{% endmacro %}
{% break %}
{# open
{% raw %} open
{{ x is }}
{% else %}
{{ }}
{% block a %}x{% endblock %}{# outside of the subset #}
""".strip("\n").split("\n")

WHOLE = [
    "{% for x in l %}\n  {{ x }}\n{% endfor %}\n",
    "  {% if true %}\n    a\n  {% endif %}\n  b\n",
    "a\n\n  {%- if true %}\n\n  b\n  {%- endif %}\n\nc",
    "{% if true %}\n{% if true %}\n  x\n{% endif %}\n{% endif %}\ny",
    "x {% if true %} y {% endif %}\n  {# c #}  \n z",
    "  {#- c #}\n  {# d -#}\n e",
    "\t {% set a = 1 %}\t\n{{ a }}\r\nb\rc\n",
    "{{ 'a\r\nb' | tojson }}",
    "{{ 'a\\\nb' }}",
    "   {{ n }}   \n   {{ n -}}   \n x",
    "a\n    {%+ if true %}\n b{% endif +%}\nc\n\n",
    "{% raw %}\n  {{ a }}\n{% endraw %}\nb",
    "{% macro m(x) %}\n  <{{ x }}>\n{% endmacro %}\n{{ m(1) }}\n{{- m(2) }}\n",
    "{% set x %}\n  a\n{% endset %}\n[{{ x }}]",
    "no tags at all\n",
    "",
    "\n",
    "\n\n{{ n }}\n\n",
    "{{ n }}\n",
    "{% if true -%}\n   \u00a0 \u2003 a {%- endif %} b",
    "a {\n{ b {%% } {{ '{{' }} {{ '}}' }} {{ {'a': {'b': 1}} }}",
    "{%set x=1%}{{x}}{%-set y=2-%} {{y}}",
    "{{ n }}{# a\nb\n#}\n{{ missing.x }}",
]

SNIPPETS = [s for s in TEXTS if s] + WHOLE


def random_expression(r, depth):
    atoms = ["n", "f", "s", "e", "u", "l", "d", "t", "z", "names", "rows", "text", "neg", "csv", "missing", "d.b", "d.a", "l[0]", "s[1:]",
             "1", "0", "-2", "2.5", "'a'", "'Ab c'", "' x '", "''", "true", "none", "[]", "[1, 'a']", "{}", "{'k': 'v'}", "(1, 2)", "range(3)", "rows[0].k", "d['items']"]
    if depth <= 0:
        return r.choice(atoms)
    sub = lambda: random_expression(r, depth - r.randint(1, 2))
    filters = ["upper", "lower", "title", "capitalize", "trim", "length", "first", "last", "list", "join", "join(', ')", "sort", "sort(reverse=true)", "reverse",
               "int", "float", "string", "abs", "round", "round(1)", "tojson", "tojson(indent=1)", "default('D')", "default('D', true)", "unique", "sum", "max", "min",
               "dictsort", "items", "map('upper')", "map('string')", "select", "reject", "select('string')", "batch(2)", "replace('a', 'b')", "e", "safe", "indent", "truncate(5)",
               "map(attribute='k')", "selectattr('k')", "list | length", "d", "count", "center(9)"]
    methods = ["upper()", "strip()", "split()", "split(',')", "lower()", "title()", "keys()", "items()", "values()", "get('b')", "get('k', 3)", "startswith('a')",
               "count('a')", "replace('a', 'b')", "find('o')", "lstrip('x')", "endswith('c')", "isdigit()", "nope", "k", "b", "index(1)", "append(1)", "join(names)", "splitlines()", "rsplit(' ', 1)"]
    tests = ["defined", "none", "string", "number", "mapping", "sequence", "iterable", "odd", "even", "true", "boolean", "eq(1)", "in [1, 2]", "divisibleby 2", "lower", "integer", "float", "callable"]
    kind = r.randint(0, 11)
    if kind <= 3:
        return f"({sub()} | {r.choice(filters)})"
    if kind == 4:
        return f"({sub()}).{r.choice(methods)}"
    if kind == 5:
        return f"({sub()} is {r.choice(['', 'not '])}{r.choice(tests)})"
    if kind == 6:
        return f"({sub()} {r.choice(['+', '-', '*', '/', '//', '%', '~', '~'])} {sub()})"
    if kind == 7:
        return f"({sub()} {r.choice(['==', '!=', '<', '>=', 'in', 'not in', 'and', 'or'])} {sub()})"
    if kind == 8:
        return f"({sub()} if {sub()} else {sub()})"
    if kind == 9:
        return f"({sub()})[{r.choice(['0', '-1', repr('k'), sub()])}]" if r.random() < 0.6 else f"{r.choice(list(VARIABLES))}[{r.choice([':2', '::-1', '1:', '-2:'])}]"
    if kind == 10:
        return r.choice(["[{}, {}]", "({}, {})", "{{'x': {}, 'y': {}}}"]).format(sub(), sub())
    return f"{r.choice(['not ', '-', ''])}{sub()}"


def random_snippets(r, count):
    out = []
    for _ in range(count):
        e = random_expression(r, r.randint(1, 5))
        shape = r.randint(0, 3)
        if shape == 0:
            e = f"{{% for x in {e} %}}{{{{ loop.index }}}}{{{{ x }}}}{{% if loop.last %}}L{{% endif %}}{{% else %}}none{{% endfor %}}"
        else:
            e = f"{{{{ {e} }}}}"
        out.append(e)
    return out
