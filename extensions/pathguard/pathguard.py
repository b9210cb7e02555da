"""Pathguard is an extension that blocks calls whose arguments lead out of the
folders that an agent works in.

It speaks the Content-Length wire with nothing but Python's standard library, and
is meant to be copied from: the first part reads and writes messages, the second
decides, the third joins the two.
"""

import json
import os
import re
import sys
from urllib.parse import unquote_to_bytes, urlsplit

PROTOCOL_VERSION = 1

sys.setrecursionlimit(10_000)  # the gate lets 1,000 objects lie within each other


# ---- Messages: JSON-RPC 2.0, each behind a header that says how long it is.

def read(stream):
    """Returns the next message, or None where the gate has ended."""
    length = None
    while True:
        line = stream.readline(1025)
        if not line:
            return None
        if len(line) > 1024 or not line.endswith(b"\n"):
            raise ValueError("a header that is too long, or cut")
        line = line.strip()
        if not line:
            break
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            length = int(value)
    if length is None or length < 0:
        raise ValueError("a header without a length")
    body = stream.read(length)
    if len(body) < length:
        raise ValueError("a message that was cut")
    # A number that is too long for Python stays text: no argument may end us.
    return json.loads(body, parse_int=lambda digits: int(digits) if len(digits) < 1000 else digits)


def write(stream, message):
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    stream.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    stream.flush()


# ---- The decision.

# Names of arguments that hold a path even when it does not look like one, as
# "docs" in {"path": "docs"}. Underscores and hyphens don't count, nor does case.
PATH_NAMES = {
    "path", "paths", "file", "files", "filename", "filepath", "filepaths", "dir", "directory", "directories", "folder",
    "cwd", "root", "workdir", "workingdirectory", "source", "src", "destination", "dest", "dst", "target", "from", "to",
    "oldpath", "newpath", "sourcepath", "targetpath", "outputpath", "inputpath", "uri", "fileuri",
}

# Names of arguments that hold text, which may begin with a slash and is no path:
# the default of the key `ignore`.
TEXT_NAMES = "content contents text body message prompt query pattern regex description code oldtext newtext oldstring newstring command"


class Outside(Exception):
    """A path that leads where it may not; the text says why."""


def plain(name):
    return name.lower().replace("_", "").replace("-", "").replace(" ", "")


def strings(value):
    """Yields each string within value, where it stands, and the name that it has;
    names of members as well, which have none. It keeps a list of its own instead of
    calling itself, since arguments may be nested deeply."""
    waiting = [(value, "", "")]
    while waiting:
        value, where, name = waiting.pop()
        if isinstance(value, str):
            yield value, where, name
        elif isinstance(value, dict):
            for key, item in value.items():
                place = f"{where}.{key}" if where else key
                yield key, f"{place} (its name)", ""
                waiting.append((item, place, key))
        elif isinstance(value, list):
            for i, item in enumerate(value):
                waiting.append((item, f"{where}[{i}]", name))


def looks_like_path(text, base):
    """Whether text is a path whatever the argument is called."""
    text = text.strip()
    if "\n" in text or len(text) > 4096:
        return False
    if text.lower().startswith("file:") or text in (".", ".."):
        return True
    if text.startswith(("/", "./", "../", "~", "$HOME", "${HOME")) or "/../" in text or text.endswith("/.."):
        return True
    # Something that lies where the agent works, which may be a link.
    first, slash, _ = text.partition("/")
    return bool(slash and first) and "\0" not in text and os.path.lexists(os.path.join(base, first))


def paths_in(text):
    """Returns all the paths that programs may take text for."""
    if text.lower().startswith("file:"):
        parts = urlsplit(text)
        if parts.netloc.lower() not in ("", "localhost"):
            raise Outside("it is on another host")
        # As the standard has it, and as programs have it that cut the scheme off.
        cut = re.sub("^file:(//)?", "", text, flags=re.IGNORECASE)
        return [os.fsdecode(unquote_to_bytes(parts.path)), cut, os.fsdecode(unquote_to_bytes(cut))]
    if re.match("[A-Za-z][A-Za-z0-9+.-]*://", text):
        return []  # a URL of another kind
    return [text, os.path.expanduser(os.path.expandvars(text))]


def resolve(path, base):
    """Returns where path really is, seen from base: links followed, .. taken."""
    if "\0" in path:
        raise Outside("it has a NUL in it")
    return os.path.realpath(os.path.join(base, re.sub("^//+", "/", path)))


def inside(path, root):
    return path == root or path.startswith(root.rstrip("/") + "/")


def check(text, roots, base):
    """Raises Outside unless text leads into one of roots, seen from base."""
    for path in paths_in(text) + paths_in(text.strip()):
        real = resolve(path, base)
        if not any(inside(real, root) for root in roots):
            link = f" (it is {real})" if real != os.path.normpath(os.path.join(base, path)) else ""
            raise Outside(f"it is not in {' or '.join(roots)}{link}")


class Guard:
    """What the configuration says."""

    def __init__(self, config):
        self.roots = [line.strip() for line in config.get("roots", "").splitlines() if line.strip()]
        for root in self.roots:
            if not os.path.isabs(os.path.expanduser(root)):
                raise ValueError(f"roots: {root} is no absolute path")
        self.ignore = {plain(name) for name in config.get("ignore", TEXT_NAMES).split()}

    def roots_for(self, project):
        """The folders that a call may reach, links followed."""
        return [os.path.realpath(os.path.expanduser(root)) for root in self.roots or ([project] if project else [])]

    def judge(self, call):
        """Returns the answer to hook.before."""
        project = call.get("project") or ""
        roots = self.roots_for(project)
        base = project or (roots[0] if roots else "/")
        named = list(strings(call.get("arguments")))
        if call.get("method") == "resources/read":
            named.append((call.get("tool") or "", "uri", "uri"))
        for text, where, last in named:
            name = plain(last)
            if not text.strip() or name in self.ignore or not (name in PATH_NAMES or looks_like_path(text, base)):
                continue
            try:
                if not roots:
                    raise Outside("the session has no project, and the configuration no roots")
                check(text, roots, base)
            except Outside as why:
                return {"action": "block", "reason": f"the argument {where:.200} leads to {text!r:.200}: {why}"}
        return {"action": "continue"}


# ---- The conversation.

class Extension:
    def __init__(self, in_stream, out_stream):
        self.input, self.output = in_stream, out_stream
        self.config, self.guard, self.asked = {}, None, 0

    def serve(self):
        while (message := read(self.input)) is not None:
            if "method" not in message:
                continue  # the answer to what we asked
            if "id" not in message:
                self.told(message["method"], message.get("params") or {})
                continue
            try:
                answer = {"result": self.do(message["method"], message.get("params") or {})}
            except NotImplementedError as error:
                answer = {"error": {"code": -32601, "message": str(error)}}
            except Exception as error:  # then the gate blocks the call
                answer = {"error": {"code": -32603, "message": f"{type(error).__name__}: {error}"}}
            write(self.output, {"id": message["id"], **answer})

    def do(self, method, params):
        if method == "initialize":
            if params["protocol_version"] == PROTOCOL_VERSION:
                self.config = params.get("config") or {}
                self.guard = Guard(self.config)
                self.asked += 1
                write(self.output, {"id": self.asked, "method": "config.subscribe", "params": {}})
            return {"protocol_version": PROTOCOL_VERSION, "capabilities": {}}
        if method == "hook.before":
            return self.guard.judge(params["call"])
        if method == "command.invoke":
            return {"exit_code": self.command(params["command"], params.get("args") or [], params["request_id"])}
        if method == "shutdown":
            return {}
        raise NotImplementedError(f"method not found: {method}")

    def told(self, method, params):
        if method != "config.changed":
            return
        config = dict(self.config)
        if params.get("value") is None:
            config.pop(params["key"], None)
        else:
            config[params["key"]] = params["value"]
        try:
            self.guard = Guard(config)
            self.config = config
        except ValueError as error:
            print(f"pathguard: the configuration stays as it was: {error}", file=sys.stderr)

    def command(self, command, args, request):
        """check PATH [ROOT]: says whether a path may be reached."""
        def say(kind, text=""):
            write(self.output, {"method": "command.output", "params": {"request_id": request, "event": {"kind": kind, "content": text}}})

        if command != "check":
            raise NotImplementedError(f"there is no command {command!r}; there is check")
        roots = self.guard.roots_for(os.path.abspath(args[1]) if len(args) == 2 else "")
        if not 1 <= len(args) <= 2 or not roots:
            say("system", "usage: tgctl ext run pathguard check PATH [ROOT]; ROOT may be left out where the configuration has roots")
            return 2
        try:
            check(args[0], roots, roots[0])
        except Outside as why:
            say("text", f"{args[0]}: blocked: {why}\n")
            say("done")
            return 1
        say("text", f"{args[0]}: goes on\n")
        say("done")
        return 0


if __name__ == "__main__":
    Extension(sys.stdin.buffer, sys.stdout.buffer).serve()
