"""The processes of the bench: started on chosen cores, read line by line, ended with their `with` block."""
import ctypes
import json
import os
import pathlib
import select
import signal
import subprocess
import time
import urllib.request

START_S = 10  # for a server to say where it listens


class Unable(Exception):
    """The bench cannot be run here."""


def die_with_parent():
    """In the child: if this script is killed outright, its servers go too."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


class Process:
    """A child on the given cores, whose output is read line by line. Ends with its `with` block."""

    def __init__(self, cores, *command):
        # Unbuffered, so that nothing is hidden from select().
        self.child = subprocess.Popen(
            ("taskset", "-c", str(cores)) + tuple(map(str, command)), bufsize=0,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=die_with_parent)
        self.pid = self.child.pid
        self.text = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def line(self, patience):
        """The next line, or None at the end of the output or of the patience."""
        end = time.monotonic() + patience
        while b"\n" not in self.text:
            ready = select.select([self.child.stdout], [], [], max(0, end - time.monotonic()))[0]
            piece = self.child.stdout.read(65536) if ready else b""
            if not piece:
                return None
            self.text += piece
        line, self.text = self.text.split(b"\n", 1)
        return line.decode(errors="replace")

    def number(self, word, patience):
        """N of the next line, which is `word N`; 0 when it is not."""
        line = self.line(patience) or ""
        return int(line.rsplit(" ", 1)[-1]) if line.startswith(word) else 0

    def say(self, text):
        self.child.stdin.write(text.encode())

    def end_input(self):
        self.child.stdin.close()

    def wait(self, patience):
        """The exit status; None when it did not end."""
        self.end_input()
        try:
            return self.child.wait(patience)
        except subprocess.TimeoutExpired:
            return None

    def stop(self):
        if self.child.poll() is None:
            self.child.terminate()
            try:
                self.child.wait(10)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()
        self.child.stdin.close()
        self.child.stdout.close()

    def threads(self):
        return len(os.listdir(f"/proc/{self.pid}/task"))

    def cpu_ns(self):
        total = 0
        for task in pathlib.Path(f"/proc/{self.pid}/task").iterdir():
            total += int((task / "schedstat").read_text().split()[0])
        return total

    def anon_bytes(self):
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return 1024 * int(line.split()[1])
        raise ProcessLookupError(f"process {self.pid} has no memory: it is gone")


class Server(Process):
    """A process that says `listening [ADDR:]PORT` first."""

    def __init__(self, cores, *command):
        super().__init__(cores, *command)
        line = self.line(START_S) or ""
        if not line.startswith("listening "):
            self.stop()
            raise Unable(f"{command[0]} did not start: {line!r}")
        self.port = int(line.rsplit(":", 1)[-1].split()[-1])


class Demo(Server):
    """The demo in one mode: the options that choose it. It also says how many threads it has."""

    def __init__(self, cores, binary, mode, epoll_threads=1):
        super().__init__(cores, binary, "--listen", "127.0.0.1:0", "--epoll-threads", epoll_threads,
                         *mode)
        self.mode = mode
        self.told = self.number("threads ", START_S)

    def trouble(self):
        """What is wrong with it now, when nobody is connected; None: nothing."""
        if self.child.poll() is not None:
            return f"the demo ended, status {self.child.returncode}"
        if "threads" in self.mode:  # one comes and goes with each connection
            return None
        now = self.threads()
        return None if now == self.told else f"{self.told} threads at the start, {now} now"

    def stats(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/stats", timeout=10) as answer:
            return json.load(answer)
