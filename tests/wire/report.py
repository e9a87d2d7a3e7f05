"""What run.py of tests/wire and of tests/clients have in common: options, configurations, result
lines."""

import argparse
import os
import shlex
import sys

# Each test runs once under each of these. Later types and exec modes are added here.
CONFIGURATIONS = [
    ("1 thread", ["--epoll-threads", "1"]),
    ("2 threads", ["--epoll-threads", "2"]),
]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def options(about):
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"),
                        help="the build folder (default: build/release)")
    parser.add_argument("--only", default="", metavar="TEXT",
                        help="only tests whose name, file or configuration has TEXT")
    parser.add_argument("--demo-args", default="", metavar="'ARG ...'",
                        help="more options for the demo")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1),
                        help="client processes")
    args = parser.parse_args()
    args.demo_args = shlex.split(args.demo_args)
    return args


class Report:
    def __init__(self):
        self.passed = self.failed = 0

    def result(self, name, wrong):
        """wrong: None, or what was wrong."""
        if wrong is None:
            self.passed += 1
            print("ok %s" % name, flush=True)
        else:
            self.failed += 1
            print("FAIL %s: %s" % (name, str(wrong).strip()), flush=True)

    def end(self):
        print("%d passed, %d failed" % (self.passed, self.failed), flush=True)
        if self.passed + self.failed == 0:
            print("nothing was tested", file=sys.stderr)
            return 1
        return 1 if self.failed else 0
