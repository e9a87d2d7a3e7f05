"""Stops while handlers run, wait or sleep (see behaviour.py)."""

import asyncio
import signal

import casefile
import stream
from behaviour import Wrong, connections, equal, stops, test, websocket

GRACE = 0.5         # s that the library takes beyond the drain time


class Client:
    """One peer that goes on until the server ends its connection."""

    def __init__(self, conn, until):
        self.conn = conn
        self.until = until
        self.turns = 0
        self.stopping = False

    async def run(self):
        try:
            await self.begin()
            while not self.conn.ended:
                await self.turn()
                self.turns += 1
        except Wrong:
            if not self.conn.ended:
                raise
        if not self.stopping:
            raise Wrong("%s: the server ended the connection (%s)"
                        % (type(self).__name__, self.conn.ended))

    async def begin(self):
        pass

    async def answer(self):
        answer = await stream.read_answer(self.conn, self.until)
        equal(answer.status, 200, type(self).__name__)
        return answer


class Sleeper(Client):
    async def turn(self):
        await self.conn.send(b"GET /slow?ms=60 HTTP/1.1\r\nHost: a\r\n\r\n", self.until)
        await self.answer()


class Pinger(Client):
    async def turn(self):
        await self.conn.send(b"GET /ping HTTP/1.1\r\nHost: a\r\n\r\n", self.until)
        await self.answer()


class Reader(Client):
    """Of a stream that does not end in time."""

    async def begin(self):
        await self.conn.send(b"GET /stream?bytes=50000000000 HTTP/1.1\r\nHost: a\r\n\r\n",
                             self.until)
        await stream.read_head(self.conn, self.until)

    async def turn(self):
        await self.conn.need(1, self.until, "more of the stream")
        self.conn.take(len(self.conn.data))
        await asyncio.sleep(0.002)


class Uploader(Client):
    async def turn(self):
        body = b"u" * 300000
        await self.conn.send(b"POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"
                             % len(body), self.until)
        for at in range(0, len(body), 50000):
            await self.conn.send(body[at:at + 50000], self.until)
            await asyncio.sleep(0.002)
        equal(b'"bytes":300000' in (await self.answer()).body, True, "the upload was counted")


class Talker(Client):
    async def begin(self):
        await websocket(self.conn, self.until)

    async def turn(self):
        text = b"%d " % self.turns * 200
        await self.conn.send(casefile.frame(0x81, text, b"\1\2\3\4"), self.until)
        op, data = await stream.read_message(self.conn, self.until)
        if op == 8 and self.stopping:
            equal(data[:2], b"\x03\xe9", "code of the Close")
            await self.conn.send(casefile.frame(0x88, data[:2]), self.until)
            await self.conn.arrival(self.until)
        else:
            equal((op, data), (1, text), "echo")


@test
async def a_stop_under_load_ends_in_its_bound(bench):
    drain = 1.5
    for more in ((), ("--slow-threads", "2")):
        with bench.demo("--drain-ms", "1500", "--close-timeout-ms", "1000", *more) as demo:
            until = bench.until(20)
            kinds = (Sleeper, Pinger, Reader, Uploader, Talker)
            async with connections(demo.tcp, 10) as tcp, connections(demo.unix, 10) as unix:
                clients = [kinds[n % 5](conn, until) for n, conn in enumerate(tcp + unix)]
                runs = [asyncio.ensure_future(client.run()) for client in clients]
                while min(client.turns for client in clients) < 3:
                    for run in runs:
                        if run.done():
                            run.result()
                            raise Wrong("a client came to its end before the stop")
                    await asyncio.sleep(0.02)
                for client in clients:
                    client.stopping = True
                demo.process.send_signal(signal.SIGINT)
                await stops(demo, drain + GRACE + 0.06 * len(clients) + 2 * bench.factor)
                await asyncio.gather(*runs)


@test
async def a_handler_that_outlasts_the_drain_ends_the_stop_with_its_own_end(bench):
    """Nothing that it uses may go before; the others do not wait for it."""
    with bench.demo("--drain-ms", "500") as demo:
        until = bench.until(20)
        start = asyncio.get_running_loop().time()
        async with connections(demo.tcp, 4) as conns:
            for conn in conns[1:3]:
                await websocket(conn, until)
            await conns[0].send(b"GET /slow?ms=3000 HTTP/1.1\r\nHost: a\r\n\r\n", until)
            await asyncio.sleep(0.3 * bench.factor)     # it sleeps now
            demo.process.send_signal(signal.SIGINT)
            await stops(demo, 3.0 + 0.5 + GRACE + 2 * bench.factor)
            took = asyncio.get_running_loop().time() - start
            if took < 2.9:
                raise Wrong("it ended after %.1f s, and a handler was to sleep for 3" % took)


@test(only=("auto", "pool", "affine"))
async def a_handler_that_outlasts_the_drain_keeps_no_peer(bench):
    """Its loop goes on: at the end of the drain its connection is aborted, and it is told."""
    with bench.demo("--drain-ms", "500") as demo:
        until = bench.until(20)
        loop = asyncio.get_running_loop()
        async with connections(demo.tcp, 1) as (conn,):
            await conn.send(b"GET /slow?ms=6000 HTTP/1.1\r\nHost: a\r\n\r\n", until)
            await asyncio.sleep(0.3 * bench.factor)     # it sleeps now
            start = loop.time()
            demo.process.send_signal(signal.SIGINT)
            while not conn.ended:
                await conn.arrival(until)
            took = loop.time() - start
            equal(bytes(conn.data), b"", "what came")
            if demo.process.poll() is not None or not 0.4 < took < 0.5 + GRACE + bench.factor:
                raise Wrong("the connection was ended after %.1f s" % took)
            await stops(demo, 6.0 + 2 * bench.factor)
            equal(bool(demo.errors().strip()), True, "a message tells of it")


@test(only=("auto", "inline", "pool", "affine"))
async def requests_that_wait_for_a_thread_do_not_prolong_a_stop(bench):
    """300 handlers of 100 ms would take 15 s on two threads, 30 s on one."""
    number = ("--work-op-threads" if bench.config.exec == "affine" else "--pool-threads", "2")
    with bench.demo(*number, "--drain-ms", "500") as demo:
        until = bench.until(20)
        async with connections(demo.tcp, 300) as conns:
            for conn in conns:
                await conn.send(b"GET /slow?ms=100 HTTP/1.1\r\nHost: a\r\n\r\n", until)
            answered = 0
            while not answered:
                answered = sum(bool(conn.data) for conn in conns)
                await asyncio.sleep(0.01)
            demo.process.send_signal(signal.SIGINT)
            await stops(demo, 0.5 + GRACE + 0.1 + 2 * bench.factor)
