#!/usr/bin/python3
"""The wire tests: every *.case file of this folder and behaviour.py, against the demo.

    run.py [--build build/release] [--only TEXT] [--demo-args '...'] [--jobs N]

A line for each test, then "N passed, N failed"; exit code 0 only if none failed. README.md
describes the case files. Each case is played whole on TCP and on the unix socket, then cut in two
at every byte and byte by byte, on either in turn.
"""

import asyncio
import json
import os
import sys
import time
import traceback

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import behaviour            # noqa: E402
import casefile             # noqa: E402
import player               # noqa: E402
import report               # noqa: E402
from demo import Demo, DemoError, slowness  # noqa: E402

AT_ONCE = 32                # connections of one client process
GIVE_UP = 3                 # failed plays of one case, per client process
# What the cases of a file with "instance NAME" run against.
INSTANCES = {
    "default": [],
    "small": ["--max-body", "1000", "--ws-max-message", "1000"],
    "impatient": ["--head-timeout-ms", "500", "--idle-timeout-ms", "700",
                  "--body-timeout-ms", "500", "--write-timeout-ms", "700",
                  "--close-timeout-ms", "500"],
}


def variants(case):
    """[(address index, cut)] of all plays of a case."""
    plays = [(0, player.WHOLE), (1, player.WHOLE)]
    plays += [(cut % 2, cut) for cut in case.cuts()]
    if case.byte_by_byte():
        plays += [(0, player.BYTEWISE), (1, player.BYTEWISE)]
    return plays


def cut_name(cut):
    return {player.WHOLE: "whole", player.BYTEWISE: "byte by byte"}.get(cut, "cut at %d" % cut)


async def play_all(plays, factor):
    """Plays them, AT_ONCE at a time: {index of the case: [plays done, what was wrong, ...]}. A case
    that has failed GIVE_UP times is not played further."""
    queue = iter(plays)
    found = {}

    async def worker():
        for index, case, addresses, where, cut in queue:
            about = found.setdefault(index, [0])
            about[0] += 1
            if len(about) > GIVE_UP:
                continue
            wrong = await player.play(case, addresses[where], cut, factor)
            if wrong:
                about.append("%s, %s: %s" % (("tcp", "unix")[where], cut_name(cut), wrong))

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
    return found


def in_child(plays, factor):
    """Forks a process that plays them; answers (pid, file to read its findings from)."""
    read, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write)
        return pid, os.fdopen(read)
    code = 1
    try:
        os.close(read)
        found = asyncio.run(play_all(plays, factor))
        with os.fdopen(write, "w") as out:
            json.dump(found, out)
        code = 0
    finally:
        if code:
            traceback.print_exc()
        os._exit(code)


def run_cases(cases, demos, factor, jobs):
    """{index of a case: [what was wrong, ...]} after all plays of all cases."""
    plays = []
    for index, case in enumerate(cases):
        addresses = (demos[case.instance].tcp, demos[case.instance].unix)
        plays += [(index, case, addresses, where, cut) for where, cut in variants(case)]
    wrongs = {index: [] for index in range(len(cases))}
    counts = dict.fromkeys(wrongs, 0)
    children = [in_child(plays[n::jobs], factor) for n in range(jobs)]
    for pid, lines in children:
        with lines:
            text = lines.read()
        for index, about in (json.loads(text) if text else {}).items():
            counts[int(index)] += about[0]
            wrongs[int(index)] += about[1:]
        os.waitpid(pid, 0)
    for index, case in enumerate(cases):
        missing = len(variants(case)) - counts[index]
        if missing:
            wrongs[index].append("%d plays did not come to an end" % missing)
    return wrongs


def case_group(out, label, cases, args, options):
    """All cases under one configuration, then the state in which they left the demos."""
    factor = slowness(args.build)
    needed = sorted({case.instance for case in cases})
    demos = {}
    try:
        for name in needed:
            demos[name] = Demo(args.build, options + INSTANCES[name])
            demos[name].__enter__()
        base = {name: demos[name].descriptors() for name in needed}
        patient = [c for c in cases if c.instance != "impatient"]
        for some in (patient, [c for c in cases if c.instance == "impatient"]):
            wrongs = run_cases(some, demos, factor, args.jobs) if some else {}
            for index, case in enumerate(some):
                wrong = wrongs[index]
                out.result("%s (%s, %s)" % (case.name, case.place, label),
                           "; ".join(wrong[:2]) + (" (and %d more)" % (len(wrong) - 2)
                                                   if len(wrong) > 2 else "") if wrong else None)
        for name in needed:
            out.result("the_%s_demo_is_well_after_all_cases (%s)" % (name, label),
                       aftermath(demos[name], base[name], factor))
    except DemoError as fault:
        out.result("the_demo_starts (%s)" % label, fault)
    finally:
        for demo in demos.values():
            demo.__exit__()


def aftermath(demo, base, factor):
    """Answers, holds no descriptor of the cases, stops with code 0; None or what is wrong."""
    if demo.process.poll() is not None:
        return "it is gone, code %d: %s" % (demo.process.returncode,
                                            "; ".join(demo.faults()[:5]) or demo.errors()[-500:])
    ping = casefile.Case("ping", "")
    ping.end = "open"
    for address in (demo.tcp, demo.unix):
        wrong = asyncio.run(player.play(ping, address, player.WHOLE, factor))
        if wrong:
            return "/ping: " + wrong
    have = demo.descriptors_fall_to(base, 8 * factor)
    stopped = demo.stop(limit=10)
    if stopped is None and have > base:
        return "%d descriptors before the cases, %d after them" % (base, have)
    return stopped


def main():
    args = report.options(__doc__.split("\n")[0])
    out = report.Report()
    started = time.monotonic()
    try:
        cases = casefile.load_all(os.path.dirname(os.path.abspath(__file__)))
    except casefile.CaseError as fault:
        print(fault, file=sys.stderr)
        return 2
    for label, options in report.CONFIGURATIONS:
        wanted = [c for c in cases if args.only in "%s (%s, %s)" % (c.name, c.place, label)]
        if wanted:
            case_group(out, label, wanted, args, options + args.demo_args)
        behaviour.run(out, label, args, options + args.demo_args)
    print("%.0f s" % (time.monotonic() - started))
    return out.end()


if __name__ == "__main__":
    sys.exit(main())
