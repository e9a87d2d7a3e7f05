"""A client's end of one connection under asyncio, and a strict reader of what the server says.

Connection gathers whatever arrives, also while it is sending, and remembers how the stream ended.
read_answer() and read_frame() take one HTTP answer or one WebSocket frame from it and refuse
whatever the RFCs forbid a server. Wrong and Late carry the text for the report.
"""

import asyncio
import re
import socket
import struct
import time
import zlib


class Wrong(Exception):
    """The server did something else than it should."""


class Late(Wrong):
    """It did not come in time."""


def shown(data, limit=160):
    """Bytes for a report line."""
    text = repr(bytes(data[:limit]))[2:-1]
    return text if len(data) <= limit else "%s... (%d bytes)" % (text, len(data))


def connect(address):
    """A blocking connect: on one machine it does not wait. address: "HOST:PORT" or "unix:PATH"."""
    if address.startswith("unix:"):
        sock = socket.socket(socket.AF_UNIX)
        # settimeout() would make connect() fail while the backlog is full
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 10, 0))
        target = address[5:]
    else:
        host, port = address.rsplit(":", 1)
        sock = socket.socket(socket.AF_INET6 if host.startswith("[") else socket.AF_INET)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(10)
        target = (host.strip("[]"), int(port))
    try:
        sock.connect(target)
    except OSError:
        sock.close()
        raise
    return sock


class Connection:
    """data: bytes not yet used; ended: None, "eof" or "reset". Belongs to one event loop."""

    def __init__(self, address):
        self.loop = asyncio.get_running_loop()
        self.sock = connect(address)
        self.sock.setblocking(False)
        self.data = bytearray()
        self.ended = None
        self.deaf = False               # the peer takes no more bytes
        self.unpack = None              # permessage-deflate was agreed on: inflates a message
        self.between = []               # control frames that stood inside the last message
        self.packed = False             # the last message was compressed
        self.waiter = None
        self.loop.add_reader(self.sock, self._readable)

    def _readable(self):
        try:
            piece = self.sock.recv(262144)
        except BlockingIOError:
            return
        except OSError:
            piece, self.ended = b"", "reset"
        if piece:
            self.data += piece
        else:
            self.ended = self.ended or "eof"
            self.loop.remove_reader(self.sock)
        if self.waiter and not self.waiter.done():
            self.waiter.set_result(None)

    async def arrival(self, until):
        """Waits for more bytes or the end; Late at the time until (of the loop's clock)."""
        if self.ended:
            return
        self.waiter = self.loop.create_future()
        timer = self.loop.call_at(until, lambda w=self.waiter: w.done() or w.set_result("late"))
        try:
            if await self.waiter == "late":
                raise Late("nothing more came in time")
        finally:
            timer.cancel()
            self.waiter = None

    async def send(self, data, until):
        """Sends all, or as much as the peer takes before it is gone."""
        view = memoryview(data)
        while view and not self.deaf:
            try:
                view = view[self.sock.send(view):]
            except BlockingIOError:
                await self._writable(until)
            except OSError:
                self.deaf = True

    async def _writable(self, until):
        ready = self.loop.create_future()
        self.loop.add_writer(self.sock, lambda: ready.done() or ready.set_result(None))
        try:
            await asyncio.wait_for(ready, until - self.loop.time())
        except asyncio.TimeoutError:
            raise Late("the server stopped taking bytes") from None
        finally:
            self.loop.remove_writer(self.sock)

    def fin(self):
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self.deaf = True

    def close(self):
        if self.sock.fileno() >= 0:
            self.loop.remove_reader(self.sock)
            self.sock.close()

    async def need(self, count, until, what):
        """Waits until count bytes are there."""
        while len(self.data) < count:
            if self.ended:
                raise Wrong("%s wanted, the connection ended (%s) after %s"
                            % (what, self.ended, shown(self.data) or "nothing"))
            try:
                await self.arrival(until)
            except Late:
                raise Late("%s wanted, in time came only %s"
                           % (what, shown(self.data) or "nothing")) from None

    async def line(self, until, what):
        """A line without its CRLF."""
        start = 0
        while True:
            end = self.data.find(b"\n", start)
            if end >= 0:
                break
            start = len(self.data)
            await self.need(start + 1, until, what)
        text = self.take(end + 1)
        if not text.endswith(b"\r\n") or b"\r" in text[:-2]:
            raise Wrong("a line that does not end with CRLF: " + shown(text))
        return text[:-2]

    def take(self, count):
        piece = bytes(self.data[:count])
        del self.data[:count]
        return piece


class Answer:
    """One HTTP answer: status, fields as [(name, value)], body."""

    def __init__(self, status, fields):
        self.status = status
        self.fields = fields
        self.body = b""
        self.trailers = []

    def all(self, name):
        return [v for n, v in self.fields if n.lower() == name.lower()]

    def one(self, name):
        values = self.all(name)
        if len(values) > 1:
            raise Wrong("%s %d times in one answer" % (name, len(values)))
        return values[0] if values else None

    def closes(self):
        return "close" in self.connection()

    def connection(self):
        """The words of all Connection fields (RFC 9110 7.6.1)."""
        return [w.strip().lower() for w in ",".join(self.all("Connection")).split(",")]


STATUS_LINE = re.compile(rb"HTTP/1\.1 ([1-5][0-9][0-9]) ([ -~]*)")
FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*?)[ \t]*")
DATE = re.compile(r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d "
                  r"(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d{4} \d\d:\d\d:\d\d GMT")


async def read_head(conn, until):
    line = await conn.line(until, "an answer")
    match = STATUS_LINE.fullmatch(line)
    if not match:
        raise Wrong("no status line: " + shown(line))
    return Answer(int(match.group(1)), await read_fields(conn, until))


async def read_fields(conn, until):
    fields = []
    while True:
        line = await conn.line(until, "a field")
        if not line:
            return fields
        field = FIELD.fullmatch(line)
        if not field:
            raise Wrong("no field: " + shown(line))
        fields.append((field.group(1).decode(), field.group(2).decode("latin-1")))


async def read_chunk(conn, until):
    """The next chunk; b"": it was the last, trailers follow."""
    line = await conn.line(until, "a chunk size")
    if not re.fullmatch(rb"[0-9a-fA-F]+", line):
        raise Wrong("no chunk size: " + shown(line))
    size = int(line, 16)
    if not size:
        return b""
    await conn.need(size, until, "a chunk of %d" % size)
    data = conn.take(size)
    if await conn.line(until, "the end of a chunk"):
        raise Wrong("no CRLF behind a chunk")
    return data


async def read_chunks(conn, until):
    """The body and the trailers."""
    body = b""
    while True:
        data = await read_chunk(conn, until)
        if not data:
            return body, await read_fields(conn, until)
        body += data


async def read_answer(conn, until, to_head=False):
    """One answer with its body; to_head: it answers HEAD, so there is none."""
    answer = await read_head(conn, until)
    length, coding = answer.one("Content-Length"), answer.one("Transfer-Encoding")
    if length is not None and coding is not None:
        raise Wrong("both Content-Length and Transfer-Encoding")    # RFC 9112 6.1
    if length is not None and not re.fullmatch(r"0|[1-9][0-9]*", length):
        raise Wrong("Content-Length: " + length)
    if coding not in (None, "chunked"):
        raise Wrong("Transfer-Encoding: " + coding)
    if answer.status >= 200:
        if not DATE.fullmatch(answer.one("Date") or ""):            # RFC 9110 6.6.1
            raise Wrong("Date: %s" % answer.one("Date"))
    if answer.status < 200 or answer.status == 204:
        if length is not None or coding is not None:                # RFC 9110 8.6, RFC 9112 6.1
            raise Wrong("a length on %d" % answer.status)
    elif answer.status == 304 or to_head:
        pass
    elif coding:
        answer.body, answer.trailers = await read_chunks(conn, until)
    elif length is not None:
        await conn.need(int(length), until, "a body of %s" % length)
        answer.body = conn.take(int(length))
    else:
        while not conn.ended:
            await conn.arrival(until)
        answer.body = conn.take(len(conn.data))
    return answer


def unpacker(extensions):
    """What inflates messages of a server that gave this answer to an offer (RFC 7692 7.1)."""
    bits = re.search(r"server_max_window_bits=(\d+)", extensions)
    alone = "server_no_context_takeover" in extensions
    state = []

    def unpack(data):
        if alone or not state:
            state[:] = [zlib.decompressobj(-int(bits.group(1)) if bits else -15)]
        try:
            data = state[0].decompress(data + b"\0\0\xff\xff")
        except zlib.error as fault:
            raise Wrong("a message that does not inflate: %s" % fault) from None
        if state[0].unconsumed_tail or state[0].eof:
            raise Wrong("a message that does not end with an open block")
        return data
    return unpack


async def read_frame(conn, until):
    """(fin, opcode, payload) of one frame of a server (RFC 6455 5.2)."""
    await conn.need(2, until, "a frame")
    first, second = conn.data[0], conn.data[1]
    if first & 0x30 or (first & 0x40 and (not conn.unpack or first & 15 not in (1, 2))):
        raise Wrong("reserved bits set: " + shown(conn.data))       # RFC 7692 6: RSV1
    if first & 15 in (1, 2):
        conn.packed = bool(first & 0x40)
    if second & 0x80:
        raise Wrong("a masked frame from a server")                 # RFC 6455 5.1
    head = 2 + {126: 2, 127: 8}.get(second, 0)
    await conn.need(head, until, "a frame header")
    size = int.from_bytes(conn.data[2:head], "big") if head > 2 else second
    if (head == 4 and size < 126) or (head == 10 and size < 65536):
        raise Wrong("a frame length that is not the shortest: %d" % size)
    if first & 8 and (size > 125 or not first & 0x80):
        raise Wrong("a control frame that is long or fragmented")   # RFC 6455 5.5
    await conn.need(head + size, until, "a frame of %d" % size)
    conn.take(head)
    return bool(first & 0x80), first & 15, conn.take(size)


async def read_message(conn, until):
    """(opcode, payload) of the next whole message or control frame. What stands between the fragments of a message
    (RFC 6455 5.4) comes behind it; but a Close ends it."""
    if conn.between:
        return conn.between.pop(0)
    fin, op, data = await read_frame(conn, until)
    if op not in (1, 2, 8, 9, 10):
        raise Wrong("a frame with opcode %d: %s" % (op, shown(data)))
    while not fin:
        fin, more, piece = await read_frame(conn, until)
        if more == 8:
            return more, piece
        if more in (9, 10):
            conn.between.append((more, piece))
            fin = False
            continue
        if more:
            raise Wrong("opcode %d inside a fragmented message" % more)
        data += piece
    if op < 8 and conn.packed:
        data = conn.unpack(data)
    if op == 1:
        try:
            data.decode("utf-8")
        except UnicodeDecodeError:
            raise Wrong("text that is not UTF-8: " + shown(data)) from None
    return op, data


def now():
    return time.monotonic()
