"""Tests of what pathguard decides, and of how it speaks."""

import io
import json
import os
import tempfile
import unittest

import pathguard


class Judge(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = os.path.realpath(folder.name)
        self.project = os.path.join(self.top, "project")
        os.makedirs(os.path.join(self.project, "docs"))
        os.makedirs(os.path.join(self.top, "project-2"))
        os.symlink("/etc", os.path.join(self.project, "link"))
        os.symlink("docs", os.path.join(self.project, "within"))
        home = os.environ.get("HOME")
        os.environ["HOME"] = os.path.join(self.top, "home")
        self.addCleanup(lambda: os.environ.pop("HOME") if home is None else os.environ.update(HOME=home))

    def judge(self, arguments, config=None, **call):
        call = {"method": "tools/call", "project": self.project, "arguments": arguments, **call}
        return pathguard.Guard(config or {}).judge(call)

    def goes(self, arguments, config=None, **call):
        self.assertEqual(self.judge(arguments, config, **call), {"action": "continue"}, arguments)

    def blocks(self, arguments, why="", config=None, **call):
        answer = self.judge(arguments, config, **call)
        self.assertEqual(answer["action"], "block", arguments)
        self.assertIn(why, answer["reason"])

    def test_within(self):
        for path in ["x", "docs/x", "./docs/../x", "within/x", self.project, self.project + "/a", f"file://{self.project}/a%20b", "",
                     f"file://localhost{self.project}/a", f"/{self.project}/a", "~not-a-user"]:
            self.goes({"path": path})

    def test_outside(self):
        for path in ["/etc/passwd", "..", "../x", "docs/../../x", "link/passwd", "link", "~", "~/x", "~root/x", "$HOME/x", "${HOME}/x",
                     "file:///etc/passwd", "FILE:///etc/passwd", "file:/etc/passwd", "file:../x", "file:%2e%2e/x", "file:////etc/passwd",
                     f"file://{self.project}/a?/../../../../../../../../etc/passwd", f"file://{self.project}/%2e%2e/x", "//etc/passwd",
                     self.project + "-2/x", self.project + "/../x", " /etc/passwd", "/", "a\0b", "file:///a%00b", "file://host/x"]:
            self.blocks({"path": path}, "the argument path leads to ")

    def test_any_name(self):
        for text in ["/etc/passwd", "../x", "~/x", "file:///etc/passwd", "docs/../../x", "link/passwd", "./../x", "docs/../..", " /etc/passwd "]:
            self.blocks({"q": text}, "the argument q leads to")
        for text in ["a/b", "https://host/../x", "git@host:a/../b".replace("..", "."), "no path", "1/2", "/* a comment\n*/"]:
            self.goes({"q": text})

    def test_nested(self):
        self.blocks({"edits": [{"x": 1}, {"to": [["../y"]]}]}, "the argument edits[1].to[0][0] leads to '../y'")
        self.blocks({"files": {"/etc/passwd": "content"}}, "the argument files./etc/passwd (its name)")
        self.blocks({"file_path": "../x"})
        self.blocks({"Working-Directory": "../x"})
        deep = "../x"
        for _ in range(990):
            deep = [deep]
        self.blocks({"path": deep})

    def test_text(self):
        self.goes({"content": "/* a comment */", "old_text": "/x", "message": "../x", "command": "/bin/ls"})
        self.blocks({"content": "/x"}, config={"ignore": "text"})
        self.goes({"path": "/x"}, config={"ignore": "text path"})

    def test_roots(self):
        roots = {"roots": f"{self.top}/project-2\n  ~\n"}
        self.goes({"path": self.top + "/project-2/x"}, roots)
        self.goes({"path": "~/x"}, roots, project="")
        self.blocks({"path": self.project}, f"it is not in {self.top}/project-2 or {self.top}/home", config=roots)
        self.blocks({"path": "x"}, "no project", project="")
        self.goes({"n": 1, "path": None}, project="")
        self.goes({"path": "/anything"}, {"roots": "/"})
        with self.assertRaisesRegex(ValueError, "no absolute path"):
            pathguard.Guard({"roots": "docs"})

    def test_root_is_a_link(self):
        link = os.path.join(self.top, "to-project")
        os.symlink(self.project, link)
        self.goes({"path": link + "/x"}, project=link)
        self.goes({"path": self.project + "/x"}, project=link)

    def test_names_the_link(self):
        self.blocks({"path": "link/passwd"}, "(it is " + os.path.realpath("/etc") + "/passwd)")

    def test_resources(self):
        self.blocks(None, "the argument uri leads to 'file:///etc/passwd'", method="resources/read", tool="file:///etc/passwd")
        self.goes(None, method="resources/read", tool="https://host/x")
        self.goes(None, method="tools/call", tool="/x")


class Speak(unittest.TestCase):
    def serve(self, *messages):
        said, heard = io.BytesIO(), io.BytesIO()
        for message in messages:
            pathguard.write(said, message)
        said.seek(0)
        pathguard.Extension(said, heard).serve()
        heard.seek(0)
        answers = []
        while (message := pathguard.read(heard)) is not None:
            answers.append(message)
        return answers

    hello = {"id": 1, "method": "initialize", "params": {"protocol_version": 1, "name": "pathguard", "config": {"roots": "/usr"}}}

    def test_conversation(self):
        answers = self.serve(
            self.hello,
            {"id": 1, "result": {"ok": True}},
            {"id": "2", "method": "hook.before", "params": {"call": {"arguments": {"path": "/etc/x"}}}},
            {"method": "config.changed", "params": {"key": "roots", "value": "relative"}},
            {"method": "config.changed", "params": {"key": "roots", "value": "/"}},
            {"id": 3, "method": "hook.before", "params": {"call": {"arguments": {"path": "/etc/x"}}}},
            {"id": 4, "method": "hook.after", "params": {}},
            {"id": 5, "method": "hook.before", "params": {}},
            {"id": 6, "method": "shutdown", "params": {}},
        )
        self.assertEqual([a.get("id") for a in answers], [1, 1, "2", 3, 4, 5, 6])
        self.assertEqual(answers[0]["method"], "config.subscribe")
        self.assertEqual(answers[1]["result"], {"protocol_version": 1, "capabilities": {}})
        self.assertEqual(answers[2]["result"]["action"], "block")
        self.assertEqual(answers[3]["result"], {"action": "continue"})
        self.assertEqual(answers[4]["error"]["code"], -32601)
        self.assertEqual(answers[5]["error"]["code"], -32603)
        self.assertEqual(answers[6]["result"], {})

    def test_another_version(self):
        answers = self.serve({"id": 1, "method": "initialize", "params": {"protocol_version": 2}})
        self.assertEqual(answers[0]["result"]["protocol_version"], 1)

    def test_command(self):
        def check(*args):
            answers = self.serve(self.hello, {"id": 2, "method": "command.invoke", "params": {"command": "check", "args": args, "request_id": "r"}})
            return answers[-1]["result"]["exit_code"], [a["params"]["event"]["content"] for a in answers[2:-1]]

        self.assertEqual(check("/usr/x"), (0, ["/usr/x: goes on\n", ""]))
        self.assertEqual(check("/bin-x"), (1, ["/bin-x: blocked: it is not in /usr\n", ""]))
        self.assertEqual(check()[0], 2)

    def test_odd_messages(self):
        # None of these ends the program: numbers that are too long, deep nesting.
        body = b'{"id":1,"method":"hook.before","params":{"n":' + b"1" * 5000 + b',"deep":' + b"[" * 900 + b"]" * 900 + b'}}'
        message = pathguard.read(io.BytesIO(b"content-length: %d\r\nX: y\r\n\r\n" % len(body) + body))
        self.assertEqual(message["id"], 1)
        for garbage in [b"Content-Length: 9\r\n\r\nx", b"X: y\r\n\r\n", b"x" * 2000, b"Content-Length: -1\r\n\r\n", b"Content-Length: x\r\n\r\n"]:
            with self.assertRaises(ValueError):
                pathguard.read(io.BytesIO(garbage))
        self.assertEqual(json.dumps("\ud83d"), '"\\ud83d"')


if __name__ == "__main__":
    unittest.main()
