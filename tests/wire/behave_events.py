"""Event streams that stay open (see behaviour.py): events as they happen, comments, ends."""

import asyncio
import signal

import stream
from behaviour import (Wrong, connections, descriptors_are_those_of, equal, fresh_ping, stops, test)


async def begin(conn, until, query=b"", fields=b""):
    """The head, and the first chunks up to the first event, as one text."""
    await conn.send(b"GET /events" + query + b" HTTP/1.1\r\nHost: a\r\n" + fields + b"\r\n", until)
    answer = await stream.read_head(conn, until)
    equal(answer.status, 200, "/events")
    return await upto(conn, until, b"\n\n", 2)


async def upto(conn, until, what, times=1):
    text = b""
    while text.count(what) < times:
        data = await stream.read_chunk(conn, until)
        if not data:
            raise Wrong("the stream ended: %r" % text)
        text += data
    return text


@test
async def events_come_second_by_second_with_their_numbers(bench):
    with bench.demo() as demo:
        until = bench.until(10)
        async with connections(demo.tcp, 2) as (one, other):
            text = await begin(one, until)
            if b"retry: 1000\n" not in text or b"id: 1\n" not in text:
                raise Wrong("the beginning: %r" % text)
            text = await begin(other, until, fields=b"Last-Event-ID: 70\r\n")
            if b"id: 71\n" not in text:
                raise Wrong("the beginning: %r" % text)
            for number in (2, 3):
                equal(await upto(one, until, b"\n\n"),
                      b"id: %d\nevent: tick\ndata: event %d\ndata: of this stream\n\n"
                      % (number, number), "an event")
            if b"id: 72\n" not in await upto(other, until, b"\n\n"):
                raise Wrong("not the next event")


@test
async def silence_is_broken_by_comments(bench):
    with bench.demo() as demo:
        until = bench.until(10)
        async with connections(demo.tcp, 1) as (conn,):
            await begin(conn, until, b"?keepalive=100")
            text = await upto(conn, until, b"\n\n")
            if not text.startswith(b":\n:\n"):
                raise Wrong("no comments before the next event: %r" % text)


@test
async def clients_that_leave_are_forgotten(bench):
    with bench.demo() as demo:
        until = bench.until(10)
        async with connections(demo.tcp, 30) as many:
            await asyncio.gather(*(begin(conn, until) for conn in many))
        await descriptors_are_those_of(demo, 0, until)
        await fresh_ping(demo.tcp, until)


@test
async def a_stop_ends_streams_in_order(bench):
    with bench.demo("--drain-ms", "20000") as demo:
        until = bench.until(10)
        async with connections(demo.tcp, 5) as many:
            await asyncio.gather(*(begin(conn, until) for conn in many))
            demo.process.send_signal(signal.SIGINT)
            for conn in many:
                while await stream.read_chunk(conn, until):
                    pass
                equal(await stream.read_fields(conn, until), [], "trailers")
            await stops(demo, 5.0 * bench.factor)
