#!/usr/bin/python3
"""The demo against real clients: curl, Debian's Python websockets, Node's ws, headless Chromium.

    run.py [--build build/release] [--only TEXT] [--config TEXT] [--demo-args '...'] [--jobs N]

A line for each test, then "N passed, N failed"; exit code 0 only if none failed. A client that is
not installed is a failure: tests/run installs them all. Options, configurations and the demo's
process are those of ../wire; a browser runs under the first configuration only.
"""

import collections
import os
import subprocess
import sys
import time
import traceback

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "wire")]

import children                     # noqa: E402
import report                       # noqa: E402
from demo import Demo, DemoError, slowness  # noqa: E402
from helpers import Wrong           # noqa: E402

import with_chromium                # noqa: E402
import with_curl                    # noqa: E402
import with_node                    # noqa: E402
import with_python                  # noqa: E402

CLIENTS = (with_curl, with_python, with_node, with_chromium)
OPTIONS = ["--compress", "text/*, application/json", "--compress-min", "200", "--files", "site",
           "--deflate=takeover"]
CONFIGURATIONS = {"auto": CLIENTS, "pool": CLIENTS[:3], "threads": CLIENTS[:3]}


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
        return str(wrong)
    except subprocess.TimeoutExpired as late:
        return "%s did not end within %.0f s" % (late.cmd[0], late.timeout)
    except Exception as fault:      # whatever it is, the next test still runs
        place = traceback.extract_tb(fault.__traceback__)[-1]
        return "%s: %s (%s:%d)" % (type(fault).__name__, fault, os.path.basename(place.filename),
                                   place.lineno)
    return None


def client_group(client, config, args):
    """All tests of one client against a demo of their own, which must stop well afterwards:
    [(name, what is wrong or None)]."""
    def name(text):
        return "%s (%s.py, %s)" % (text, client.__name__, config.label)

    tests = [f for f in client.TESTS if args.only in name(f.__name__)]
    if not tests:
        return []
    missing = client.missing()
    if missing:
        return [(name(test.__name__), missing) for test in tests]
    results = []
    try:
        with Demo(args.build, config.options + OPTIONS) as demo:
            base = config.descriptors_with(0, demo.descriptors())
            for test in tests:
                results.append((name(test.__name__), outcome(test, Run(demo, args.build))))
            have = demo.descriptors_fall_to(base, 8 * slowness(args.build))
            threads = demo.threads_fall_to(demo.threads, 2 * slowness(args.build))
            wrong = demo.stop()
            if wrong is None and (have > base or threads != demo.threads):
                wrong = "%d descriptors and %d threads wanted, %d and %d are there" \
                    % (base, demo.threads, have, threads)
            results.append((name("the_demo_is_well_afterwards"), wrong))
    except DemoError as fault:
        results.append((name("the_demo_starts"), str(fault)))
    return results


def main():
    args = report.options(__doc__.split("\n")[0])
    out = report.Report()
    started = time.monotonic()
    tasks = [(client, config) for config in args.chosen
             for client in CONFIGURATIONS.get(config.label, ())]
    tasks.sort(key=lambda task: task[0] is not with_chromium)      # the longest first
    seconds = collections.Counter()
    for number, results, took in children.run(
            [lambda task=task: client_group(*task, args) for task in tasks], args.jobs):
        client, config = tasks[number]
        seconds[config.label] += took
        if results is None:
            results = [("the_tests_come_to_their_end (%s.py, %s)"
                        % (client.__name__, config.label), "their process broke down")]
        for name, wrong in results:
            out.result(name, wrong)
    print("%.0f s; by configuration, some at a time: %s"
          % (time.monotonic() - started,
             ", ".join("%s %.0f s" % (label, s) for label, s in seconds.items())))
    return out.end()


if __name__ == "__main__":
    sys.exit(main())
