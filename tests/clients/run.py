#!/usr/bin/python3
"""The demo against real clients: curl, Debian's Python websockets, Node's ws, headless Chromium.

    run.py [--build build/release] [--only TEXT] [--demo-args '...'] [--jobs N]

A line for each test, then "N passed, N failed"; exit code 0 only if none failed. A client that is
not installed is a failure: tests/run installs them all. Options, configurations and the demo's
process are those of ../wire.
"""

import os
import subprocess
import sys
import time
import traceback

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "wire")]

import report                       # noqa: E402
from demo import Demo, DemoError, slowness  # noqa: E402
from helpers import Wrong           # noqa: E402

import with_chromium                # noqa: E402
import with_curl                    # noqa: E402
import with_node                    # noqa: E402
import with_python                  # noqa: E402

CLIENTS = (with_curl, with_python, with_node, with_chromium)


class Run:
    """What a test gets: the demo, the build folder, and how much longer this build needs."""

    def __init__(self, demo, build):
        self.demo = demo
        self.build = build
        self.factor = slowness(build)

    @property
    def origin(self):
        return "http://" + self.demo.tcp


def outcome(function, run):
    try:
        function(run)
    except Wrong as wrong:
        return wrong
    except subprocess.TimeoutExpired as late:
        return "%s did not end within %.0f s" % (late.cmd[0], late.timeout)
    except Exception as fault:      # whatever it is, the next test still runs
        place = traceback.extract_tb(fault.__traceback__)[-1]
        return "%s: %s (%s:%d)" % (type(fault).__name__, fault, os.path.basename(place.filename),
                                   place.lineno)
    return None


def client_group(out, client, label, args, options):
    """All tests of one client against a demo of their own, which must stop well afterwards."""
    def name(text):
        return "%s (%s.py, %s)" % (text, client.__name__, label)

    tests = [f for f in client.TESTS if args.only in name(f.__name__)]
    if not tests:
        return
    missing = client.missing()
    if missing:
        for test in tests:
            out.result(name(test.__name__), missing)
        return
    try:
        with Demo(args.build, options) as demo:
            base = demo.descriptors()
            for test in tests:
                out.result(name(test.__name__), outcome(test, Run(demo, args.build)))
            have = demo.descriptors_fall_to(base, 8 * slowness(args.build))
            wrong = demo.stop()
            if wrong is None and have > base:
                wrong = "%d descriptors before, %d after" % (base, have)
            out.result(name("the_demo_is_well_afterwards"), wrong)
    except DemoError as fault:
        out.result(name("the_demo_starts"), fault)


def main():
    args = report.options(__doc__.split("\n")[0])
    out = report.Report()
    started = time.monotonic()
    for label, options in report.CONFIGURATIONS:
        for client in CLIENTS:
            client_group(out, client, label, args, options + args.demo_args)
    print("%.0f s" % (time.monotonic() - started))
    return out.end()


if __name__ == "__main__":
    sys.exit(main())
