#!/usr/bin/env python3
"""Counts the cases in ctest's results: summary.py RESULTS.xml [FAILURES] prints "PASSED FAILED", and adds to the
file FAILURES what the failed ones said.

A test program runs many cases and says how many: cmocka by its "[  PASSED  ] 3 test(s)" lines, the
runners by a line "3 passed, 0 failed". A program that says nothing is one case. A program that
failed without a failed case (it crashed, it took too long) counts as one failed case more.
"""
import re
import sys
import xml.etree.ElementTree

COUNTS = (
    (re.compile(r"^\[  PASSED  \] (\d+) test", re.M), re.compile(r"^\[  FAILED  \] (\d+) test", re.M)),
    (re.compile(r"^(\d+) passed, \d+ failed$", re.M), re.compile(r"^\d+ passed, (\d+) failed$", re.M)),
)


def count(output, ok):
    """(passed, failed) of one program."""
    passed = failed = 0
    for good, bad in COUNTS:
        passed += sum(map(int, good.findall(output)))
        failed += sum(map(int, bad.findall(output)))
    if not ok:
        failed = max(failed, 1)
    elif passed + failed == 0:
        passed = 1
    return passed, failed


TELLING = re.compile(r"FAIL|ERROR|SUMMARY|Traceback|Error:")
TAIL = 40


def tell(name, output, file):
    """What a reader needs first: lines that speak of a fault, then the end."""
    lines = output.splitlines()
    early = [line for line in lines[:-TAIL] if TELLING.search(line)]
    print(f"---- {name}", *early[:TAIL], *lines[-TAIL:], sep="\n", file=file)


def main():
    passed = failed = 0
    for test in xml.etree.ElementTree.parse(sys.argv[1]).iter("testcase"):
        output = test.findtext("system-out") or ""
        good, bad = count(output, test.get("status") == "run")
        if bad and len(sys.argv) > 2:
            with open(sys.argv[2], "a", encoding="utf-8") as file:
                tell(test.get("name"), output, file)
        passed += good
        failed += bad
    if passed + failed == 0:
        failed = 1
    print(passed, failed)


main()
