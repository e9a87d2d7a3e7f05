"""Reads *.case files: data that say what is sent and what has to come (README.md describes them).

A case is a list of steps. Bytes to send are gathered into "write" steps; everything else is kept as
(word, value...) for player.py. Nothing here touches a socket.
"""

import os
import re

KEY = "dGhlIHNhbXBsZSBub25jZQ=="        # RFC 6455 1.3
ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
CUT_EVERY_MAX = 600                     # longer cases are cut at a sample of places only
PING = b"GET /ping HTTP/1.1\r\nHost: a\r\n\r\n"
END_STATES = ("open", "closed", "dropped", "ended")


class CaseError(Exception):
    pass


class Case:
    """One case: name, where it stands, its steps, its end state, and how it may be cut."""

    def __init__(self, name, place):
        self.name = name
        self.place = place
        self.why = []
        self.steps = []
        self.end = None
        self.after = []         # "elapsed" behind the end state
        self.cut = None
        self.instance = "default"
        self.limit = 5.0

    def write(self, data, whole=False):
        """Adds bytes: to the last write, unless that is one that must not be cut."""
        last = self.steps[-1] if self.steps else None
        if last and last[0] == "write" and last[2] == whole:
            self.steps[-1] = ("write", last[1] + data, whole)
        else:
            self.steps.append(("write", data, whole))

    def cuttable(self):
        """The number of bytes that may be cut."""
        return sum(len(s[1]) for s in self.steps if s[0] == "write" and not s[2])

    def cuts(self):
        """Where to cut: offsets into the cuttable bytes, each with a byte on either side."""
        size = self.cuttable()
        mode = self.cut or ("every" if size <= CUT_EVERY_MAX else "sample")
        if mode == "no" or size < 2:
            return []
        if mode == "every":
            return list(range(1, size))
        step = max(size // 24, 1)
        places = set(range(1, size, step)) | {2, size // 2, size - 1, size - 2, size - 3}
        return sorted(p for p in places if 0 < p < size)

    def byte_by_byte(self):
        return self.cut != "no" and 1 < self.cuttable() <= CUT_EVERY_MAX

    def behind_others(self):
        """The case with two requests before it in the same write, or None where that says nothing."""
        if not self.steps or self.steps[0][0] != "write" or self.measures_time() or \
                self.instance == "three":       # requests are counted
            return None
        deep = self.like()
        pong = ("expect", (200,), False, [("body", b"pong")])
        _, data, whole = self.steps[0]
        deep.steps = [("write", 2 * PING + data, whole), pong, pong] + self.steps[1:]
        return deep

    def three_deep(self):
        """The case three times, everything sent in one write and all answers behind it, or None: the
        connection has to go on, and no step may wait for another."""
        words = {step[0] for step in self.steps}
        if self.end != "open" or self.measures_time() or not words <= {"write", "then", "expect"} or \
                any(min(s[1]) < 200 for s in self.steps if s[0] == "expect") or "write" not in words:
            return None
        deep = self.like()
        data = b"".join(s[1] for s in self.steps if s[0] == "write")
        deep.steps = [("write", 3 * data, False)] + 3 * [s for s in self.steps if s[0] == "expect"]
        return deep

    def measures_time(self):
        return self.instance == "impatient" or \
            any(s[0] in ("mark", "elapsed", "dribble", "quiet") for s in self.steps)

    def like(self):
        other = Case(self.name, self.place)
        other.end, other.instance, other.limit = self.end, self.instance, self.limit
        return other


def unescape(text):
    r"""\r \n \t \\ \" \xNN, {repeat N TEXT} and {each N TEXT with $i}; all else is itself."""
    def block(match):
        word, count, inner = match.group(1), int(match.group(2)), match.group(3)
        if word == "repeat":
            return inner * count
        return "".join(inner.replace("$i", str(i)) for i in range(count))

    text = re.sub(r"\{(repeat|each) (\d+) ([^}]*)\}", block, text)
    table = {"r": "\r", "n": "\n", "t": "\t", "\\": "\\", '"': '"'}

    def escape(match):
        if match.group(1)[0] == "x":
            return chr(int(match.group(1)[1:], 16))
        return table[match.group(1)]

    text = re.sub(r'\\(x[0-9a-fA-F]{2}|[rnt\\"])', escape, text)
    return text.encode("latin-1")


def payload(text):
    """Hex and quoted text in any order: 81 85 00000000 "hello"."""
    out = b""
    pos = 0
    token = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([0-9a-fA-F]+))(?=\s|$)')
    text = text.rstrip()
    while pos < len(text):
        match = token.match(text, pos)
        if not match:
            raise CaseError("neither hex nor quoted: " + text[pos:])
        out += unescape(match.group(1)) if match.group(1) is not None \
            else bytes.fromhex(match.group(2))
        pos = match.end()
    return out


def mask(data, key):
    if not any(key):
        return data
    repeated = (key * (len(data) // 4 + 1))[:len(data)]
    return (int.from_bytes(data, "big") ^ int.from_bytes(repeated, "big")).to_bytes(
        len(data), "big") if data else data


def frame(first, data, key=b"\0\0\0\0"):
    """A client's frame with the shortest length form (RFC 6455 5.2)."""
    if len(data) < 126:
        size = bytes([0x80 | len(data)])
    elif len(data) < 65536:
        size = b"\xfe" + len(data).to_bytes(2, "big")
    else:
        size = b"\xff" + len(data).to_bytes(8, "big")
    return bytes([first]) + size + key + mask(data, key)


def upgrade(path, extra=b""):
    return (b"GET " + path.encode() + b" HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n"
            b"Connection: Upgrade\r\nSec-WebSocket-Key: " + KEY.encode() +
            b"\r\nSec-WebSocket-Version: 13\r\n" + extra + b"\r\n")


def numbers(text):
    return tuple(int(n) for n in text.split("|"))


def add_step(case, word, rest):
    """One line of a case. Raises CaseError when it is none."""
    if word == ">":
        case.write(unescape(rest) + b"\r\n")
    elif word == ">-":
        case.write(unescape(rest))
    elif word == "upgrade":             # the request as bytes, to be cut like all others
        path, _, extra = rest.partition(" ")
        case.write(upgrade(path, unescape(extra) + b"\r\n" if extra else b""))
    elif word == "ws":                  # the request whole, and its answer
        path, _, extra = rest.partition(" ")
        case.write(upgrade(path, unescape(extra) + b"\r\n" if extra else b""), whole=True)
        case.steps.append(("expect", (101,), False, []))
        case.steps.append(("then",))
    elif word == "frame":
        case.write(payload(rest))
    elif word == "masked":
        key, first, data = (rest.split(None, 2) + [""])[:3]
        case.write(frame(int(first, 16), payload(data), bytes.fromhex(key)))
    elif word in ("expect", "expect-head"):
        case.steps.append(("expect", numbers(rest), word == "expect-head", []))
    elif word == "again":
        case.steps += [case.steps[-1]] * int(rest)
    elif word in ("header", "no-header", "trailer", "body", "body-has", "body-not", "body-len"):
        if not case.steps or case.steps[-1][0] != "expect":
            raise CaseError(word + " without an expect before it")
        value = rest if word.endswith(("header", "trailer")) else \
            int(rest) if word == "body-len" else unescape(rest)
        case.steps[-1][3].append((word, value))
    elif word in ("expect-text", "expect-binary", "expect-ping", "expect-pong"):
        case.steps.append((word, payload(rest)))
    elif word == "expect-close":
        case.steps.append((word, tuple(None if c == "none" else int(c) for c in rest.split("|"))))
    elif word in ("then", "fin", "mark", "maybe-100"):
        case.steps.append((word,))
    elif word == "packed":
        case.steps.append((word, {"yes": True, "no": False}[rest]))
    elif word == "quiet":
        case.steps.append((word, int(rest)))
    elif word == "elapsed":
        low, high = rest.split()
        (case.after if case.end else case.steps).append((word, int(low), int(high)))
    elif word == "maybe":
        case.steps.append((word, numbers(rest)))
    elif word == "dribble":
        gap, size, text = rest.split(" ", 2)
        case.steps.append((word, int(gap), int(size), unescape(text)))
    elif word in END_STATES:
        case.end = word
    elif word == "cut" and rest in ("every", "sample", "no"):
        case.cut = rest
    else:
        raise CaseError("no such step: " + word)


def load(path):
    """All cases of one file."""
    cases, case, instance = [], None, "default"
    with open(path, encoding="ascii") as lines:
        for number, line in enumerate(lines, 1):
            line = line.rstrip()
            place = "%s:%d" % (os.path.basename(path), number)
            word, _, rest = line.partition(" ")
            try:
                if not line:
                    continue
                if word.startswith("#"):
                    if case and not case.steps:
                        case.why.append(line.lstrip("# "))
                elif word == "instance":
                    instance = rest
                elif word == "case":
                    case = Case(rest, place)
                    case.instance = instance
                    cases.append(case)
                elif case is None or (case.end and word != "elapsed"):
                    raise CaseError("a step outside a case")
                else:
                    add_step(case, word, rest)
            except (CaseError, ValueError, KeyError) as fault:
                raise CaseError("%s: %s" % (place, fault)) from None
    for case in cases:
        if not case.end:
            raise CaseError("%s: %s has no end state" % (case.place, case.name))
        if not re.fullmatch(r"[a-z0-9_]+", case.name):
            raise CaseError("%s: a name is words joined by _" % case.place)
    return cases


def load_all(folder):
    """Every case of every file of the folder, by file name; names must be unique."""
    cases, names = [], {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".case"):
            cases += load(os.path.join(folder, name))
    for case in cases:
        if case.name in names:
            raise CaseError("%s: %s stands at %s too" % (case.place, case.name, names[case.name]))
        names[case.name] = case.place
    return cases
