"""The access log of the demo (see behaviour.py): a line for each request, in each format, and a new file when it is
asked for one."""

import asyncio
import json
import os
import pathlib
import re
import signal
import tempfile

import stream
from behaviour import Wrong, connections, equal, fails, fresh_ping, ping, test

COMMON = re.compile(r'127\.0\.0\.1 - - \[\d\d/[A-Z][a-z][a-z]/\d{4}:\d\d:\d\d:\d\d \+0000\] '
                    r'"(.*) HTTP/1\.[01]" (\d{3}) (\d+|-)')


def lines_of(path):
    return pathlib.Path(path).read_text(encoding="utf-8").splitlines()


async def lines_come(path, count, until):
    while len(lines_of(path)) < count:
        if asyncio.get_running_loop().time() > until:
            raise Wrong("%d lines wanted in time, came %s" % (count, lines_of(path)))
        await asyncio.sleep(0.02)


async def some_requests(demo, until):
    """Three pipelined, one refused by its route, one with a body."""
    async with connections(demo.tcp, 1) as (conn,):
        one = b"GET /ping?n=%d HTTP/1.1\r\nHost: t\r\nUser-Agent: \"a\\b\"\r\n\r\n"
        await conn.send(one % 1 + one % 2 + one % 3, until)
        for _ in range(3):
            equal((await stream.read_answer(conn, until)).status, 200, "/ping")
        await conn.send(b"GET /nothing HTTP/1.1\r\nHost: t\r\n\r\n"
                        b"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\nhello", until)
        equal((await stream.read_answer(conn, until)).status, 404, "/nothing")
        equal((await stream.read_answer(conn, until)).body, b"hello", "POST /")


@test
async def each_request_has_its_line(bench):
    until = bench.until()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "log")
        with bench.demo("--access-log", path) as demo:
            await some_requests(demo, until)
        found = [COMMON.fullmatch(line) for line in lines_of(path)]
        equal([m and m.group(1, 2) for m in found],
              [("GET /ping?n=1", "200"), ("GET /ping?n=2", "200"), ("GET /ping?n=3", "200"),
               ("GET /nothing", "404"), ("POST /", "200")], "lines")
        equal([m.group(3) for m in found[:3]] + [found[4].group(3)], ["4", "4", "4", "5"], "bytes")


@test
async def json_lines_tell_times_that_can_be(bench):
    until = bench.until()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "log")
        with bench.demo("--access-log", path, "--access-format", "json") as demo:
            await some_requests(demo, until)
            async with connections(demo.tcp, 1) as (conn,):
                await conn.send(b"GET /slow?ms=50 HTTP/1.1\r\nHost: t\r\n\r\n", until)
                equal((await stream.read_answer(conn, until)).status, 200, "/slow")
        entries = [json.loads(line) for line in lines_of(path)]
        equal([e["target"] for e in entries], ["/ping?n=1", "/ping?n=2", "/ping?n=3", "/nothing", "/",
                                               "/slow?ms=50"], "targets")
        equal(entries[0]["user_agent"], '"a\\b"', "user_agent")
        for e in entries:
            if not 0 <= e["first_byte_us"] <= e["last_byte_us"]:
                raise Wrong("first byte after the last: %s" % e)
        if entries[5]["handler_us"] < 45000 or entries[5]["last_byte_us"] < 45000:
            raise Wrong("/slow?ms=50 took no time: %s" % entries[5])
        if entries[0]["handler_us"] > 45000 * bench.factor:
            raise Wrong("/ping took too long: %s" % entries[0])


@test(only=("auto",))
async def a_signal_opens_the_log_anew(bench):
    until = bench.until()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "log")
        with bench.demo("--access-log", path) as demo:
            async with connections(demo.tcp, 1) as (conn,):
                await ping(conn, until)
                await lines_come(path, 1, until)
                os.rename(path, path + ".1")
                os.kill(demo.pid, signal.SIGHUP)
                while not os.path.exists(path):
                    if asyncio.get_running_loop().time() > until:
                        raise Wrong("no new file came")
                    await asyncio.sleep(0.02)
                await ping(conn, until)
                await lines_come(path, 1, until)
            await fresh_ping(demo.tcp, until)
        equal(len(lines_of(path)), 2, "lines of the new file")
        equal(len(lines_of(path + ".1")), 1, "lines of the old file")


@test(only=("auto",))
async def a_log_that_cannot_be_written_is_refused(bench):
    fails(bench, 2, options=["--access-log", "/nonexistent/log"], words=["/nonexistent/log"])
    fails(bench, 2, options=["--access-format", "xml"], words=["access-format", "xml"])
