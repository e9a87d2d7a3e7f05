"""Runs functions in processes of their own, some at a time."""

import json
import os
import selectors
import sys
import time
import traceback


def start(function):
    """Forks a process that runs it; answers (pid, descriptor to read its answer from)."""
    sys.stdout.flush()
    read, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write)
        return pid, read
    code = 1
    try:
        os.close(read)
        text = json.dumps(function()).encode()
        with os.fdopen(write, "wb") as out:
            out.write(text)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def run(functions, at_once):
    """Yields (number of the function, its answer, its seconds) as they end, at most at_once at a
    time. The answer goes through JSON; None: the process broke down."""
    waiting = list(enumerate(functions))
    selector = selectors.DefaultSelector()
    while waiting or selector.get_map():
        while waiting and len(selector.get_map()) < at_once:
            number, function = waiting.pop(0)
            pid, read = start(function)
            selector.register(read, selectors.EVENT_READ, [number, pid, time.monotonic(), b""])
        for key, _ in selector.select():
            number, pid, since, text = key.data
            piece = os.read(key.fd, 1 << 20)
            if piece:
                key.data[3] = text + piece
                continue
            selector.unregister(key.fd)
            os.close(key.fd)
            os.waitpid(pid, 0)
            yield number, json.loads(text) if text else None, time.monotonic() - since
