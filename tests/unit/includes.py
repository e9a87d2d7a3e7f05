#!/usr/bin/env python3
"""Includes point only downward, and never in a circle.

The rooms of the library stand one above the other; a file includes its own room and those below.
Public headers include public headers only; samples and adapters see nothing else of the library.
The rules are first tried on trees that break them, so that this test is known to fail when it must.
"""
import pathlib
import re
import sys
import tempfile

ROOMS = ["base", "proto", "net", "exec", "conn", "server"]  # lowest first
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.M)


def includes(root):
    """{file: [(quote, name)]} of the library, its public headers, samples and adapters."""
    found = {}
    for folder in ("include", "iohandler", "samples", "adapters"):
        for path in sorted((root / folder).rglob("*.[ch]")):
            text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
            found[path.relative_to(root).as_posix()] = INCLUDE.findall(text)
    return found


def target(files, name):
    """The file of the tree that an include names, or None for the system's."""
    for candidate in ("include/" + name, "iohandler/" + name):
        if candidate in files:
            return candidate
    return None


def faults(root):
    files = includes(root)
    bad = []
    edges = {}
    for path, names in files.items():
        top, room = path.split("/")[:2]
        edges[path] = []
        for quote, name in names:
            to = target(files, name)
            if to is not None:
                edges[path].append(to)
            if top == "iohandler":
                if room not in ROOMS:
                    bad.append(f"{path}: '{room}' is no room of the library")
                    break
                if quote == '"' and to is None:
                    bad.append(f'{path}: "{name}" is no file of the library')
                elif to and to.startswith("iohandler/"):
                    below = to.split("/")[1]
                    if below not in ROOMS or ROOMS.index(below) > ROOMS.index(room):
                        bad.append(f"{path}: includes {name}, which lies above")
            elif to and to.startswith("iohandler/"):
                bad.append(f"{path}: includes {name}, which is private")
    return bad + circles(edges)


def circles(edges):
    """A fault for each include that leads back to a file on the way to it."""
    bad = []
    done = set()

    def visit(path, way):
        if path in way:
            bad.append("a circle: " + " -> ".join(way[way.index(path):] + [path]))
        elif path not in done:
            for to in edges[path]:
                visit(to, way + [path])
            done.add(path)

    for path in edges:
        visit(path, [])
    return bad


BROKEN = {
    "an include that points upward": {
        "iohandler/base/a.h": '#include "net/b.h"\n', "iohandler/net/b.h": ""},
    "two headers of one room that include each other": {
        "iohandler/base/a.h": '#include "base/b.h"\n',
        "iohandler/base/b.h": '#include "base/a.h"\n'},
    "a public header that includes a private one": {
        "include/iohandler/a.h": '#include "base/b.h"\n', "iohandler/base/b.h": ""},
    "a sample that includes a private header": {
        "samples/a.c": '#include "base/b.h"\n', "iohandler/base/b.h": ""},
    "a room that is not in the plan": {"iohandler/attic/a.c": "#include <stdio.h>\n"},
    "a quoted include that does not start at a room": {
        "iohandler/base/a.c": '#include "a.h"\n', "iohandler/base/a.h": ""},
}


def tree_has_fault(files):
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        return bool(faults(root))


def main():
    passed = failed = 0
    for rule, files in BROKEN.items():
        ok = tree_has_fault(files)
        print("ok  " if ok else "FAIL", rule, "is refused")
        passed += ok
        failed += not ok

    root = pathlib.Path(__file__).resolve().parents[2]
    bad = faults(root)
    if not includes(root):
        bad.append("there are no sources")
    for fault in bad:
        print(fault)
    print("FAIL" if bad else "ok  ", "the tree's own includes point downward")
    print(f"{passed + (not bad)} passed, {failed + bool(bad)} failed")
    sys.exit(1 if bad or failed else 0)


main()
