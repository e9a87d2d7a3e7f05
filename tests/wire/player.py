"""Plays one case on one connection: whole, cut in two at a place, or byte by byte.

play() returns None, or the text of what was wrong. Steps run in order; everything that arrives must
have been expected.
"""

import asyncio

import casefile
import stream
from stream import Wrong, shown

GAP = 0.001         # s between two pieces: long enough for a server to wake, mostly
GAPS_MAX = 3        # s: on a busy machine a gap is long, and the server's deadlines are not
WHOLE, BYTEWISE = 0, -1
BEHIND, THREE_DEEP = -2, -3     # the case as casefile.py puts it, whole
OPCODES = {"expect-text": 1, "expect-binary": 2, "expect-ping": 9, "expect-pong": 10}
PROOF = b"still open"


class Player:
    def __init__(self, case, conn, cut, slowness):
        self.case = case
        self.conn = conn
        self.cut = cut
        self.sent = 0               # cuttable bytes so far
        self.answer = None          # the last one
        self.websocket = False
        self.skip_100 = False       # a 100 may come before the next answer
        self.started = stream.now()
        self.slowness = slowness
        self.until = self.patience()

    async def write(self, data, whole):
        if whole or self.cut == WHOLE:
            pieces = [data]
        elif self.cut == BYTEWISE:
            pieces = [data[i:i + 1] for i in range(len(data))]
        else:
            at = self.cut - self.sent
            pieces = [data[:at], data[at:]] if 0 < at < len(data) else [data]
        if not whole:
            self.sent += len(data)
        began = self.conn.loop.time()
        for number, piece in enumerate(pieces):
            if number and self.conn.loop.time() < began + GAPS_MAX:
                await asyncio.sleep(GAP)
            if self.conn.ended == "reset" or self.conn.deaf:
                return
            await self.conn.send(piece, self.until)
        self.until = self.patience()

    def patience(self):
        """Until when something has to happen: after a write, whatever its pieces took, and after an answer."""
        return self.conn.loop.time() + self.case.limit * self.slowness

    async def dribble(self, gap_ms, size, data):
        for i in range(0, len(data), size):
            if self.conn.ended or self.conn.deaf or self.conn.data:
                return
            await self.conn.send(data[i:i + size], self.until)
            await asyncio.sleep(gap_ms / 1000)

    async def expect(self, statuses, to_head, checks):
        answer = await stream.read_answer(self.conn, self.until, to_head)
        if self.skip_100 and answer.status == 100:
            answer = await stream.read_answer(self.conn, self.until, to_head)
        self.skip_100 = False
        self.answer = answer
        self.until = self.patience()
        wanted = "|".join(str(s) for s in statuses)
        if answer.status not in statuses:
            raise Wrong("%s wanted, came %d %s" % (wanted, answer.status, shown(answer.body)))
        for word, value in checks:
            check(answer, word, value)
        named = sum(word == "trailer" for word, value in checks)
        if len(answer.trailers) != named:
            raise Wrong("%d trailers wanted, came %s" % (named, answer.trailers))
        if answer.status == 101:
            if answer.one("Sec-WebSocket-Accept") != casefile.ACCEPT:
                raise Wrong("Sec-WebSocket-Accept: %s" % answer.one("Sec-WebSocket-Accept"))
            if answer.one("Upgrade") is None or "upgrade" not in answer.connection():
                raise Wrong("101 without Upgrade and Connection")   # RFC 6455 4.2.2
            self.websocket = True
            extensions = answer.one("Sec-WebSocket-Extensions")
            self.conn.unpack = stream.unpacker(extensions) if extensions else None

    async def maybe(self, statuses):
        """An answer with one of these, or the end."""
        if not self.conn.data and not self.conn.ended:
            await self.conn.arrival(self.until)
        if self.conn.data:
            await self.expect(statuses, False, [])

    async def expect_message(self, word, wanted):
        op, data = await stream.read_message(self.conn, self.until)
        if op != OPCODES[word] or data != wanted:
            raise Wrong("%s %s wanted, came opcode %d: %s" % (word, shown(wanted), op, shown(data)))

    async def expect_close(self, codes):
        op, data = await stream.read_message(self.conn, self.until)
        if op != 8:
            raise Wrong("Close wanted, came opcode %d: %s" % (op, shown(data)))
        code = int.from_bytes(data[:2], "big") if data else None
        if len(data) == 1 or code not in codes:
            raise Wrong("Close %s wanted, came %s" % ("|".join(map(str, codes)), shown(data)))

    async def quiet(self, ms):
        try:
            await self.conn.arrival(self.conn.loop.time() + ms / 1000)
        except stream.Late:
            pass
        if self.conn.data or self.conn.ended:
            raise Wrong("silence wanted, came %s" % (shown(self.conn.data) or self.conn.ended))

    def elapsed(self, low, high):
        ms = (stream.now() - self.started) * 1000
        if not low <= ms <= high * self.slowness:
            raise Wrong("after %d to %d ms wanted, came after %d" % (low, high, ms))

    async def end_open(self):
        """Proves that the connection goes on, and that nothing else was on its way."""
        if self.answer and self.answer.closes():
            raise Wrong("Connection: close on a connection that should stay")
        if self.websocket:
            await self.conn.send(casefile.frame(0x89, PROOF), self.until)
            await self.expect_message("expect-pong", PROOF)
        else:
            await self.conn.send(casefile.PING, self.until)
            answer = await stream.read_answer(self.conn, self.until)
            if answer.status != 200 or answer.body != b"pong":
                raise Wrong("/ping on the open connection gave %d %s"
                            % (answer.status, shown(answer.body)))
        if self.conn.data or self.conn.between:
            raise Wrong("too much came: %s %s" % (shown(self.conn.data), self.conn.between))

    async def end_closed(self, promised, reset_too):
        """Waits for the server's end of stream, without a byte before it. promised: the last answer
        has to say so (RFC 9112 9.6)."""
        answer = self.answer
        if promised and answer and not self.websocket and not answer.closes():
            raise Wrong("the last answer, %d, lacks Connection: close" % answer.status)
        while not self.conn.ended:
            try:
                await self.conn.arrival(self.until)
            except stream.Late:
                raise stream.Late("the end wanted, the connection stayed open; came %s"
                                  % (shown(self.conn.data) or "nothing")) from None
        if self.conn.data:
            raise Wrong("the end wanted, came " + shown(self.conn.data))
        if self.conn.ended == "reset" and not reset_too:
            raise Wrong("a reset instead of an orderly end")

    async def run(self):
        for step in self.case.steps:
            word = step[0]
            if word == "write":
                await self.write(step[1], step[2])
            elif word == "expect":
                await self.expect(step[1], step[2], step[3])
            elif word in OPCODES:
                await self.expect_message(word, step[1])
            elif word == "expect-close":
                await self.expect_close(step[1])
            elif word == "packed" and self.conn.packed != step[1]:
                raise Wrong("the message was %scompressed" % ("not " if step[1] else ""))
            elif word == "then":
                await asyncio.sleep(GAP)
            elif word == "fin":
                self.conn.fin()
            elif word == "quiet":
                await self.quiet(step[1])
            elif word == "dribble":
                await self.dribble(step[1], step[2], step[3])
            elif word == "maybe":
                await self.maybe(step[1])
            elif word == "maybe-100":
                self.skip_100 = True
            elif word == "mark":
                self.started = stream.now()
            elif word == "elapsed":
                self.elapsed(step[1], step[2])
        if self.case.end == "open":
            await self.end_open()
        else:
            await self.end_closed(self.case.end == "closed", self.case.end == "ended")
        for step in self.case.after:
            self.elapsed(step[1], step[2])


def check(answer, word, value):
    if word == "header":
        name, colon, wanted = value.partition(":")
        have = answer.all(name)
        if not have or (colon and have != [wanted.strip()]):
            raise Wrong("header %s wanted, came %s" % (value, have))
    elif word == "trailer":
        name, colon, wanted = value.partition(":")
        if (name, wanted.strip()) not in answer.trailers:
            raise Wrong("trailer %s wanted, came %s" % (value, answer.trailers))
    elif word == "no-header":
        if answer.all(value):
            raise Wrong("no header %s wanted, came %s" % (value, answer.all(value)))
    elif word == "body" and answer.body != value:
        raise Wrong("body %s wanted, came %s" % (shown(value), shown(answer.body)))
    elif word == "body-len" and len(answer.body) != value:
        raise Wrong("%d bytes of body wanted, came %d" % (value, len(answer.body)))
    elif word == "body-has" and value not in answer.body:
        raise Wrong("body with %s wanted, came %s" % (shown(value), shown(answer.body)))
    elif word == "body-not" and value in answer.body:
        raise Wrong("body without %s wanted, came %s" % (shown(value), shown(answer.body)))


async def play(case, cut, address, slowness=1):
    """None when all is right, else what was not."""
    try:
        conn = stream.Connection(address)
    except OSError as fault:
        return "cannot connect to %s: %s" % (address, fault)
    try:
        await Player(case, conn, cut, slowness).run()
    except Wrong as wrong:
        return str(wrong)
    finally:
        conn.close()
    return None
