"""Starts and stops the demo host for tests: port 0, a unix socket in a folder of its own, and a
look at what a sanitizer wrote. Also counts its descriptors, threads and processor time.

Demo is a context manager; what it started is gone afterwards, also when the test failed.
"""

import ctypes
import os
import re
import resource
import select
import shutil
import signal
import subprocess
import tempfile
import time

import site_files as site

FAULTS = ("ERROR: AddressSanitizer", "runtime error", "WARNING: ThreadSanitizer", "LeakSanitizer",
          "Sanitizer:DEADLYSIGNAL")
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)
TICKS = os.sysconf("SC_CLK_TCK")


class DemoError(Exception):
    pass


def binary(build):
    return os.path.join(build, "samples", "demo")


def build_name(build):
    return os.path.basename(os.path.normpath(build))


def slowness(build):
    """How much longer deadlines of tests have to be for this build: the sanitizers cost time."""
    for end, factor in (("asan", 2), ("tsan", 4)):
        if build_name(build).endswith(end):
            return factor
    return 1


class Demo:
    """A running demo. tcp, unix: addresses of its listeners; threads: as it says itself."""

    def __init__(self, build, options=(), listen=None, files=None, environment=None,
                 start_limit=15):
        self.build = build
        self.folder = tempfile.mkdtemp(prefix="ioh-test-")
        self.unix_path = os.path.join(self.folder, "x.sock")
        self.listen = ["127.0.0.1:0", "unix:" + self.unix_path] if listen is None else listen
        self.command = [os.path.abspath(binary(build))]
        for address in self.listen:
            self.command += ["--listen", address]
        self.command += list(options)
        if "site" in options:               # --files site
            self.site = os.path.join(self.folder, "site")
            site.make(self.site)
        self.files = files                  # RLIMIT_NOFILE, soft and hard
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("IOH_")}
        self.environment.update(environment or {})
        self.start_limit = start_limit
        self.addresses, self.threads, self.process, self.code = [], None, None, None

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.process:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self.process.stdout.close()
            self.process = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def _in_child(self):
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)    # no demo outlives its test
        if self.files:
            resource.setrlimit(resource.RLIMIT_NOFILE, (self.files, self.files))

    def spawn(self):
        """Starts the program without waiting for its lines."""
        with open(os.path.join(self.folder, "stderr"), "wb") as errors:
            try:
                self.process = subprocess.Popen(
                    self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
                    preexec_fn=self._in_child, cwd=self.folder, env=self.environment)
            except OSError as fault:
                raise DemoError("cannot start %s: %s" % (self.command[0], fault)) from None

    def start(self):
        self.spawn()
        until = time.monotonic() + self.start_limit
        text = b""
        while True:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise DemoError("no 'threads' line in time, only: %r" % text)
            piece = os.read(self.process.stdout.fileno(), 4096)
            text += piece
            if not piece:
                raise DemoError("it ended with code %d: %r %s"
                                % (self.process.wait(), text, self.errors()[-2000:]))
            lines = text.decode().split("\n")
            self.addresses = [l.split(" ", 1)[1] for l in lines[:-1] if l.startswith("listening ")]
            counts = [int(l.split()[1]) for l in lines[:-1] if l.startswith("threads ")]
            if counts:
                self.threads = counts[0]
                break
        if len(self.addresses) < len(self.listen):      # options may name more
            raise DemoError("%d listeners asked for, announced %s"
                            % (len(self.listen), self.addresses))

    @property
    def tcp(self):
        return self.addresses[0]

    @property
    def unix(self):
        return "unix:" + self.unix_path

    @property
    def pid(self):
        return self.process.pid

    def errors(self):
        with open(os.path.join(self.folder, "stderr"), errors="replace") as text:
            return text.read()

    def faults(self):
        """What a sanitizer found: its lines."""
        return [l for l in self.errors().splitlines() if any(f in l for f in FAULTS)]

    def stop(self, sign=signal.SIGINT, limit=10):
        """Asks it to end. None when it did so in time, with code 0 and nothing found, else why."""
        if self.process.poll() is None:
            self.process.send_signal(sign)
        try:
            self.code = self.process.wait(limit)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return "it did not end within %d s" % limit
        if self.faults():
            return "a sanitizer speaks: %s" % "; ".join(self.faults()[:5])
        if self.code != 0:
            return "it ended with code %d: %s" % (self.code, self.errors()[-500:])
        return None

    def descriptors(self):
        """The fewest of a few looks: twice a second the demo reads the kernel's statistics from files."""
        fewest = len(os.listdir("/proc/%d/fd" % self.pid))
        for _ in range(3):
            time.sleep(0.002)
            fewest = min(fewest, len(os.listdir("/proc/%d/fd" % self.pid)))
        return fewest

    def descriptors_fall_to(self, count, limit):
        """Waits until at most count are open; answers how many are."""
        until = time.monotonic() + limit
        while True:
            have = self.descriptors()
            if have <= count or time.monotonic() > until:
                return have
            time.sleep(0.02)

    def cpu_seconds(self):
        with open("/proc/%d/stat" % self.pid) as text:
            fields = text.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def thread_count(self):
        """As the kernel counts them, but for the one that ThreadSanitizer adds."""
        with open("/proc/%d/status" % self.pid) as text:
            own = next(int(l.split()[1]) for l in text if l.startswith("Threads:"))
        return own - 1 if build_name(self.build).endswith("tsan") else own

    def threads_fall_to(self, count, limit):
        """Waits until at most count are there; answers how many are."""
        until = time.monotonic() + limit
        while True:
            have = self.thread_count()
            if have <= count or time.monotonic() > until:
                return have
            time.sleep(0.02)

    def thread_names(self):
        """{what stands before the number: how many have such a name}."""
        names = {}
        for task in os.listdir("/proc/%d/task" % self.pid):
            try:
                with open("/proc/%d/task/%s/comm" % (self.pid, task)) as text:
                    name = re.sub(r"-[0-9]+$", "", text.read().strip())
            except (FileNotFoundError, ProcessLookupError):     # it has just ended
                continue
            names[name] = names.get(name, 0) + 1
        return names
