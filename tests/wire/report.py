"""What run.py of tests/wire and of tests/clients have in common: options, configurations, result
lines."""

import argparse
import os
import shlex
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OWN_DEFAULTS = {"auto": 8, "pool": 8}       # pool threads for each epoll thread


class Configuration:
    """How the demo runs: options, and what follows from them."""

    def __init__(self, label, *options):
        self.label = label
        self.options = list(options)

    def with_more(self, options):
        """The same with further options; of an option given twice the last counts."""
        return Configuration(self.label, *self.options, *options)

    def value(self, option, default):
        at = [i for i, word in enumerate(self.options) if word == option]
        return self.options[at[-1] + 1] if at else default

    @property
    def threaded(self):
        """A thread for each connection."""
        return self.value("--type", "epoll") == "threads"

    @property
    def exec(self):
        """Who runs the callbacks."""
        named = self.value("--exec", "auto")
        work = int(self.value("--work-op-threads", "0"))
        return "affine" if named == "auto" and work else named

    @property
    def loops(self):
        return 1 if self.threaded else int(self.value("--epoll-threads", "1"))

    @property
    def workers(self):
        work = int(self.value("--work-op-threads", "0"))
        if self.threaded:
            return 0
        return work or (self.loops if self.exec == "affine" else 0)

    @property
    def pool(self):
        """Threads of the server's own pool."""
        threads = int(self.value("--pool-threads", "0"))
        if self.threaded:
            return 0
        return threads or OWN_DEFAULTS.get(self.exec, 0) * self.loops

    @property
    def slow(self):
        """Threads of the named pool; with a thread for each connection there are none."""
        return 0 if self.threaded else int(self.value("--slow-threads", "0"))

    @property
    def threads(self):
        """All threads of the demo while nobody is connected."""
        watcher = 0 if self.threaded or self.exec != "auto" else 1
        main = 1
        return self.loops + self.pool + self.workers + watcher + main + self.slow

    # --type threads: a connection has a thread and a mailbox of its own, and those of the next one
    # are made before it comes.

    def threads_with(self, connections):
        return self.threads + (connections if self.threaded else 0)

    def descriptors_with(self, connections, fresh):
        """What is open then; fresh: what was open before the first one came."""
        return fresh + (2 * connections + 1 if self.threaded else connections)


# Every test runs under each of these. The first one gets the most thorough treatment.
CONFIGURATIONS = [
    Configuration("auto", "--epoll-threads", "2"),
    Configuration("inline", "--exec", "inline", "--epoll-threads", "1"),
    Configuration("pool", "--exec", "pool", "--epoll-threads", "2"),
    Configuration("affine", "--exec", "affine", "--epoll-threads", "2"),
    Configuration("threads", "--type", "threads"),
]


def options(about):
    """The command line. chosen: the configurations, with the demo's further options."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"),
                        help="the build folder (default: build/release)")
    parser.add_argument("--only", default="", metavar="TEXT",
                        help="only tests whose name, file or configuration has TEXT")
    parser.add_argument("--config", action="append", metavar="TEXT",
                        help="only configurations whose name has TEXT (repeatable): %s"
                        % ", ".join(c.label for c in CONFIGURATIONS))
    parser.add_argument("--some-cuts", action="store_true",
                        help="cut cases at a dozen bytes only, but under the first configuration")
    parser.add_argument("--demo-args", default="", metavar="'ARG ...'",
                        help="more options for the demo")
    parser.add_argument("--jobs", type=int, default=(os.cpu_count() or 1) + 1,
                        help="tests at a time")
    args = parser.parse_args()
    more = shlex.split(args.demo_args)
    args.chosen = [c.with_more(more) for c in CONFIGURATIONS
                   if not args.config or any(text in c.label for text in args.config)]
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
