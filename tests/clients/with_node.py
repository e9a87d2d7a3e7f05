"""Node's ws against the demo: each test of ws_client.js, which runs once for all of them."""

import os
import re
import shutil
import subprocess

from helpers import Wrong

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ws_client.js")
MODULES = "/usr/share/nodejs"
LATEST = {}     # demo's address: its output lines


def environment():
    return dict(os.environ, NODE_PATH=MODULES)


def missing():
    if not shutil.which("node"):
        return "node is not installed (Debian: nodejs)"
    if not os.path.isdir(os.path.join(MODULES, "ws")):
        return "%s/ws is not there (Debian: node-ws)" % MODULES
    return None


def output(run):
    """What the program says of this demo."""
    if run.demo.tcp not in LATEST:
        done = subprocess.run(["node", PROGRAM, run.demo.tcp], env=environment(), check=False,
                              capture_output=True, text=True, timeout=120 * run.factor)
        LATEST.clear()
        LATEST[run.demo.tcp] = done.stdout + done.stderr
    return LATEST[run.demo.tcp]


def as_test(name):
    def test(run):
        text = output(run)
        if not re.search(r"^ok %s$" % name, text, re.M):
            failed = re.search(r"^FAIL %s: (.*)$" % name, text, re.M)
            raise Wrong(failed.group(1) if failed else "it did not come to its end: " + text[-500:])
    test.__name__ = name
    return test


with open(PROGRAM, encoding="utf-8") as source:
    NAMES = re.findall(r"^    async ([a-z0-9_]+)\(\)", source.read(), re.M)
TESTS = [as_test(name) for name in NAMES]
