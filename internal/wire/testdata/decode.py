# Decodes each line of standard input (base64 of one message) as a server in
# Python would, and prints the id, method, name and arguments it finds.
import base64
import json
import struct
import sys

if hasattr(sys, "set_int_max_str_digits"):
    sys.set_int_max_str_digits(0)


def text(s):
    return "s" + "".join("%06x" % ord(c) for c in s)


def number(n):
    try:
        f = float(n)
    except OverflowError:
        f = float("-inf") if n < 0 else float("inf")
    return "n" + struct.pack(">d", f + 0.0).hex()


def plain(v):
    if v is None:
        return "null"
    if v is True:
        return "true"
    if v is False:
        return "false"
    if isinstance(v, str):
        return text(v)
    if isinstance(v, (int, float)):
        return number(v)
    if isinstance(v, list):
        return "[" + ",".join(map(plain, v)) + "]"
    return "{" + ",".join(sorted(text(k) + ":" + plain(v[k]) for k in v)) + "}"


def member(v, name):
    return plain(v[name]) if isinstance(v, dict) and name in v else "absent"


sys.setrecursionlimit(10000)
for line in sys.stdin:
    m = json.loads(base64.b64decode(line).decode("utf-8"))
    p = m.get("params")
    print(" ".join([member(m, "id"), member(m, "method"), member(p, "name"), member(p, "arguments")]))
