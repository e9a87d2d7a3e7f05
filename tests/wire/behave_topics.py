"""Topics with many subscribers: who gets what, and what slow ones do to the others."""

import asyncio
import random

import casefile
import stream
from behave_deflate import agreed, words
from behaviour import (Wrong, connections, equal, message, ping, reset, stats, test, threads_are_those_of,
                       websocket)


async def subscribe(conns, until, name, query=""):
    for at in range(0, len(conns), 50):
        await asyncio.gather(*(websocket(c, until, "/topic/" + name + query) for c in conns[at:at + 50]))


async def publish(conn, until, data, op=1):
    await conn.send(casefile.frame(0x80 | op, data, b"\x01\x02\x03\x04"), until)


def stop_reading(conn):
    conn.loop.remove_reader(conn.sock)


def read_again(conn):
    conn.loop.add_reader(conn.sock, conn._readable)


async def until_counted(demo, until, counter, least):
    """Waits until the demo has counted that much; answers all counters."""
    while True:
        counters = await stats(demo, until)
        if counters[counter] >= least:
            return counters
        if asyncio.get_running_loop().time() > until:
            raise Wrong("%s: %d wanted, there are %d" % (counter, least, counters[counter]))
        await asyncio.sleep(0.02)


@test
async def wildcards_hear_what_they_match_and_nothing_else(bench):
    heard = {"a/b": "a/b", "a/%2B": "a/b a/ a/c", "a/%23": "a a/b a/ a/c a/c/d",
             "%23": "a a/b b a/ a/c a/c/d", "%2B/b": "a/b", "%2B": "a b"}
    said = ("a", "a/b", "b", "a/", "a/c", "a/c/d")
    with bench.demo() as demo:
        until = bench.until()
        async with connections(demo.tcp, len(heard)) as ears, connections(demo.tcp, len(said)) as mouths:
            for conn, name in zip(ears, heard):
                await websocket(conn, until, "/topic/" + name)
            for conn, name in zip(mouths, said):
                await websocket(conn, until, "/topic/" + name + "?others=1")
            for conn, name in zip(mouths, said):
                await publish(conn, until, name.encode())
                await conn.send(casefile.frame(0x89, b"done"), until)   # published before the next is
                await message(conn, until, 10, b"done")
            for conn, names in zip(ears, heard.values()):
                for name in sorted(names.split(), key=said.index):
                    await message(conn, until, 1, name.encode())
                await conn.send(casefile.frame(0x89, b"end"), until)
                await message(conn, until, 10, b"end")


@test
async def five_hundred_subscribers_get_every_message_once_and_in_order(bench):
    count = 100 if bench.config.threaded else 500
    with bench.demo() as demo:
        until = bench.until(30)
        async with connections(demo.tcp, count) as conns:
            await subscribe(conns, until, "all")
            await threads_are_those_of(demo, count, until)
            texts = [b"message %d " % n * (1 + 300 * (n % 3)) for n in range(12)]
            for text in texts:
                await publish(conns[0], until, text)
            for conn in conns:
                for text in texts:
                    await message(conn, until, 1, text)
            counters = await stats(demo, until)
            equal(counters["topic_subscriptions"], count, "subscriptions")
            equal(counters["topic_published"], len(texts), "published")
            equal(counters["topic_delivered"], len(texts) * count, "delivered")
        await until_gone(demo, until)


async def until_gone(demo, until):
    while (await stats(demo, until))["topic_subscriptions"]:
        if asyncio.get_running_loop().time() > until:
            raise Wrong("subscriptions are left of clients that have gone")
        await asyncio.sleep(0.02)


@test
async def others_are_answered_while_a_broadcast_goes_out(bench):
    """A megabyte to everyone, again and again; none of the rest waits for all of them."""
    with bench.demo() as demo:
        until = bench.until(30)
        async with connections(demo.tcp, 60) as conns, connections(demo.tcp, 1) as (other,):
            await subscribe(conns, until, "all")
            text = b"m" * 200000
            for _ in range(5):
                await publish(conns[0], until, text)
                await ping(other, until)
                for conn in conns:
                    await message(conn, until, 1, text)


@test
async def a_slow_subscriber_is_skipped_and_nobody_else_is(bench):
    """One of a hundred has stopped reading: the others' messages go on, and it catches up later."""
    with bench.demo() as demo:
        until = bench.until(40)
        async with connections(demo.tcp, 30) as conns, connections(demo.tcp, 1) as (slow,):
            await subscribe(conns + [slow], until, "t")
            stop_reading(slow)
            number = 0
            while (await stats(demo, until))["topic_skipped"] < 3:
                text = b"%04d " % number + b"x" * 100000
                await publish(conns[0], until, text)
                for conn in conns:
                    await message(conn, until, 1, text)
                number += 1
            counters = await stats(demo, until)
            equal(counters["topic_delivered"] + counters["topic_skipped"], 31 * number, "fates")
            read_again(slow)
            for _ in range(counters["topic_delivered"] - 30 * number):
                op, data = await stream.read_message(slow, until)
                equal((op, len(data)), (1, 100005), "what was not skipped")
            await publish(slow, until, b"here again")
            await message(slow, until, 1, b"here again")


@test
async def the_latest_of_each_topic_comes_when_there_is_room(bench):
    with bench.demo() as demo:
        until = bench.until(40)
        async with connections(demo.tcp, 3) as (one, two, watcher), connections(demo.tcp, 1) as (slow,):
            await subscribe([one], until, "p/one", "?others=1")
            await subscribe([two], until, "p/two", "?others=1")
            await subscribe([watcher], until, "p/%23")
            await subscribe([slow], until, "p/%23", "?full=latest")
            stop_reading(slow)
            number = 0
            while (await stats(demo, until))["topic_coalesced"] < 10:
                for conn in (one, two):
                    text = (b"%d %d " % (conn is two, number)) + b"x" * 60000
                    await publish(conn, until, text)
                    await message(watcher, until, 1, text)
                number += 1
            read_again(slow)
            last = {}
            while last != {b"0": number - 1, b"1": number - 1}:
                _, data = await stream.read_message(slow, until)
                which, count, _ = data.split(b" ")
                if int(count) <= last.get(which, -1):
                    raise Wrong("an older message after a newer one")
                last[which] = int(count)
            await slow.send(casefile.frame(0x89, b"end"), until)
            await message(slow, until, 10, b"end")


@test
async def who_does_not_keep_up_is_closed_on_request(bench):
    """A rule of its own for each: one is closed while new ones come and get everything."""
    with bench.demo() as demo:
        until = bench.until(40)
        async with connections(demo.tcp, 2) as conns, connections(demo.tcp, 1) as (slow,):
            await subscribe(conns, until, "t")
            await subscribe([slow], until, "t", "?full=close")
            stop_reading(slow)
            number = 0
            while (await stats(demo, until))["topic_closed"] < 1:
                text = b"%04d " % number + b"x" * 100000
                await publish(conns[0], until, text)
                async with connections(demo.tcp, 2) as passing:
                    await subscribe(passing[:1], until, "t")
                    for conn in conns:
                        await message(conn, until, 1, text)
                    reset(passing[0])
                number += 1
            read_again(slow)
            for wanted in range(number):
                frame = await stream.read_message(slow, until)
                if frame[0] == 8:
                    break
                equal(frame[1][:5], b"%04d " % wanted, "what came before it was closed")
            else:
                frame = await stream.read_message(slow, until)
            equal((frame[0], frame[1][:2]), (8, b"\x03\xf5"), "its Close frame")


@test
async def subscribers_who_leave_while_messages_go_out_harm_nobody(bench):
    async def passer_by(demo, until, over):
        turn = 0
        while not over.is_set():
            conn = stream.Connection(demo.tcp)
            try:
                await websocket(conn, until, "/topic/t/%d" % (turn % 3))
                await publish(conn, until, b"hello from outside")
                await asyncio.sleep(0.001 * (turn % 4))
                if turn % 2:
                    reset(conn)
            finally:
                conn.close()
            turn += 1

    with bench.demo() as demo:
        until = bench.until(30)
        over = asyncio.Event()
        async with connections(demo.tcp, 4) as conns:
            await subscribe(conns, until, "stay")
            passing = [asyncio.ensure_future(passer_by(demo, until, over)) for _ in range(10)]
            try:
                for number in range(150):
                    await publish(conns[number % 4], until, b"%d" % number)
                    for conn in conns:
                        await message(conn, until, 1, b"%d" % number)
            finally:
                over.set()
                await asyncio.gather(*passing)
        await until_gone(demo, until)


@test
async def a_batch_reaches_each_in_its_form_and_in_order(bench):
    """Sent in one write, so that a loop finds them together: plain and compressed subscribers, narrow windows,
    contexts of their own."""
    dice = random.Random(13)
    offers = (None, b"", b"; server_max_window_bits=9", b"; server_no_context_takeover")
    texts = [b"%d %s" % (n, words(dice, (20, 400, 3000)[n % 3])) for n in range(30)]
    for options in (["--deflate"], ["--deflate=takeover"]):
        with bench.demo(*options) as demo:
            until = bench.until(30)
            async with connections(demo.tcp, 12) as conns:
                for number, conn in enumerate(conns):
                    if offers[number % 4] is None:
                        await websocket(conn, until, "/topic/t")
                    else:
                        await agreed(conn, until, offers[number % 4], "/topic/t")
                await conns[0].send(b"".join(casefile.frame(0x81, text, b"abcd") for text in texts), until)
                for conn in conns:
                    for text in texts:
                        await message(conn, until, 1, text)


@test
async def the_watchers_of_the_statistics_publish_nothing(bench):
    """Among the figures, which come once a second, a pong tells that what was sent before it has been read."""
    with bench.demo() as demo:
        until = bench.until()
        async with connections(demo.tcp, 2) as conns:
            for conn in conns:
                await websocket(conn, until, "/live")
            await publish(conns[0], until, b"false figures")
            for conn in conns:
                await publish(conn, until, b"then", op=9)
                frame = (True, 1, b"{")
                while frame != (True, 10, b"then"):
                    frame = await stream.read_frame(conn, until)
                    if frame[1] == 1 and not frame[2].startswith(b"{"):
                        raise Wrong("a watcher was told " + stream.shown(frame[2]))
