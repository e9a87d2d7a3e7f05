#!/usr/bin/env python3
"""samples/swap answers the same under every type, and only the number of its threads differs.

sample_swap.py SWAP
"""
import contextlib
import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

LIMIT = 20      # s for one thing to happen
CLIENTS = 40
KINDS = (("threads", ["--type", "threads"]),
         ("epoll", ["--type", "epoll"]),
         ("epoll, 3 pool threads", ["--type", "epoll", "--pool-threads", "3"]),
         ("epoll, 4 work threads", ["--type", "epoll", "--work-op-threads", "4"]))


class Wrong(Exception):
    """The host did something else than it should."""


def equal(have, wanted, what):
    if have != wanted:
        raise Wrong(f"{what}: {wanted!r} wanted, came {have!r}")


class Swap:
    """The host, on a port of the system's choice, without anybody's word on its options."""

    def __init__(self, program, options):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("IOH_")}
        self.process = subprocess.Popen([program, "--listen", "127.0.0.1:0", *options], text=True,
                                        env=clean, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        listening, threads = self.process.stdout.readline(), self.process.stdout.readline()
        match = re.fullmatch(r"listening 127\.0\.0\.1:(\d+)\n", listening)
        if not match or not re.fullmatch(r"threads \d+\n", threads):
            raise Wrong(f"told {listening!r} {threads!r}, {self.process.stderr.read()!r}")
        self.port = int(match[1])
        self.told = int(threads.split()[1])
        with open(program, "rb") as file:       # the thread sanitizer has one of its own
            self.foreign = 1 if b"__tsan_init" in file.read() else 0

    def threads(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return int(re.search(r"^Threads:\s*(\d+)", file.read(), re.M)[1]) - self.foreign

    def threads_become(self, wanted):
        until = time.monotonic() + LIMIT
        while self.threads() != wanted and time.monotonic() < until:
            time.sleep(0.01)
        return self.threads()

    def client(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT)

    def stop(self):
        """Its last line, once it has ended by itself."""
        self.process.send_signal(signal.SIGTERM)
        out, err = self.process.communicate(timeout=LIMIT)
        # More clients than pool threads at a time: that this is told is as it should be.
        told = [line for line in err.splitlines() if "no pool thread was left" not in line]
        equal((self.process.returncode, told), (0, []), "exit code and errors")
        return out

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def ask(client, method, path, body=None):
    client.request(method, path, body=body)
    answer = client.getresponse()
    return answer.status, answer.read()


class Watcher:
    """A WebSocket by hand: short text frames, and nothing else, are what is heard here."""

    def __init__(self, swap):
        self.socket = socket.create_connection(("127.0.0.1", swap.port), timeout=LIMIT)
        self.file = self.socket.makefile("rb")
        self.socket.sendall(b"GET /watch HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n"
                            b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
        status = self.file.readline()
        equal(status.split()[1:2], [b"101"], "upgrade")
        while self.file.readline() != b"\r\n":
            pass

    def hear(self):
        opcode, length = self.file.read(2)
        data = self.file.read(length)
        return data.decode() if opcode == 0x81 else (opcode, data)

    def close(self):
        self.file.close()
        self.socket.close()


def at_once(count, work):
    """Runs work(i) in a thread for each i; raises what one of them raised."""
    faults = []

    def run(i):
        try:
            work(i)
        except Exception as fault:      # told below, in the main thread
            faults.append(fault)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]


# ---- the tests

def notes_are_added_read_listed_and_removed(swap):
    client = swap.client()
    equal(ask(client, "GET", "/notes/1"), (200, b"the first note\n"), "the first note")
    status, text = ask(client, "POST", "/notes", b"buy milk")
    equal(status, 201, "a new note")
    place = text.decode().strip()
    equal(ask(client, "GET", place), (200, b"buy milk"), "the new note")
    status, text = ask(client, "GET", "/notes")
    equal((status, place in text.decode().split()), (200, True), "the list")
    equal(ask(client, "DELETE", place), (204, b""), "its removal")
    equal(ask(client, "GET", place)[0], 404, "the removed note")
    equal(ask(client, "DELETE", place)[0], 404, "its second removal")
    client.close()


def what_cannot_be_done_is_refused_and_the_connection_goes_on(swap):
    client = swap.client()
    for method, path, status in (("GET", "/", 404), ("GET", "/notes/0", 404),
                                 ("GET", "/notes/1x", 404), ("GET", "/notes/9999999999", 404),
                                 ("GET", "/watch", 404), ("POST", "/notes/1", 405),
                                 ("DELETE", "/notes", 405), ("PUT", "/notes/1", 405)):
        equal(ask(client, method, path, b"text" if method == "POST" else None)[0], status,
              f"{method} {path}")
    equal(ask(client, "GET", "/notes/1")[0], 200, "the request after these")
    client.close()


def text_may_have_1000_bytes_and_come_in_pieces(swap):
    client = swap.client()
    whole = bytes(range(32, 127)) * 10 + b"." * 50
    pieces = (whole[i:i + 7] for i in range(0, len(whole), 7))
    client.request("POST", "/notes", body=pieces, encode_chunked=True,
                   headers={"Transfer-Encoding": "chunked"})
    answer = client.getresponse()
    place = answer.read().decode().strip()
    equal((answer.status, ask(client, "GET", place)[1]), (201, whole), "1000 bytes in pieces")
    ask(client, "DELETE", place)
    equal(ask(client, "POST", "/notes", whole + b".")[0], 413, "1001 bytes")
    client.close()


def watchers_hear_of_all_changes_in_the_same_order(swap):
    watchers = [Watcher(swap) for _ in range(5)]

    def change(_):
        client = swap.client()
        for _ in range(5):
            place = ask(client, "POST", "/notes", b"short-lived")[1].decode().strip()
            equal(ask(client, "DELETE", place)[0], 204, "removal")
        client.close()

    at_once(4, change)
    heard = [[watcher.hear() for _ in range(40)] for watcher in watchers]
    for each in heard:
        equal(each, heard[0], "what another watcher heard")
    for kind in ("added", "removed"):
        numbers = [text.split()[1] for text in heard[0] if text.startswith(kind)]
        equal((len(numbers), len(set(numbers))), (20, 20), kind)
    for watcher in watchers:
        watcher.close()


def the_number_of_threads_is_as_the_type_says(swap, fixed):
    equal(swap.threads_become(swap.told), swap.told, "threads before")
    wanted = swap.told if fixed else swap.told + CLIENTS
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(contextlib.closing(swap.client())) for _ in range(CLIENTS)]
        most = []

        def ask_often(i):
            for _ in range(5):
                equal(ask(clients[i], "GET", "/notes/1")[0], 200, "a request among many")
                if i == 0:
                    most.append(swap.threads())

        at_once(CLIENTS, ask_often)
        equal(max(most) <= wanted, True, f"at most {wanted} threads under load, {most}")
        equal(swap.threads_become(wanted), wanted, "threads with all clients there")
    equal(swap.threads_become(swap.told), swap.told, "threads afterwards")


def stop_closes_every_handle(swap, queries):
    out = swap.stop()
    match = re.fullmatch(r"queries (\d+), handles left open 0\n", out)
    if not match or int(match[1]) < queries:
        raise Wrong(f"last line {out!r}, at least {queries} queries wanted")


def main():
    good = bad = 0

    def test(name, label, function, *args):
        nonlocal good, bad
        try:
            function(*args)
            good += 1
            print("ok  ", name, f"({label})")
        except Exception as fault:      # whatever it is, the next test still runs
            bad += 1
            print("FAIL", name, f"({label}): {type(fault).__name__}: {fault}")

    for label, options in KINDS:
        swap = Swap(sys.argv[1], options)
        try:
            for function in (notes_are_added_read_listed_and_removed,
                             what_cannot_be_done_is_refused_and_the_connection_goes_on,
                             text_may_have_1000_bytes_and_come_in_pieces,
                             watchers_hear_of_all_changes_in_the_same_order):
                test(function.__name__, label, function, swap)
            test("the_number_of_threads_is_as_the_type_says", label,
                 the_number_of_threads_is_as_the_type_says, swap, label != "threads")
            test("stop_closes_every_handle", label, stop_closes_every_handle, swap, 5 * CLIENTS)
        finally:
            swap.end()
    print(f"{good} passed, {bad} failed")
    sys.exit(1 if bad else 0)


main()
