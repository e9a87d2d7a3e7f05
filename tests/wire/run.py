#!/usr/bin/python3
"""The wire tests: every *.case file of this folder and behaviour.py, against the demo.

    run.py [--build build/release] [--only TEXT] [--config TEXT] [--some-cuts] [--demo-args '...']
           [--jobs N]

A line for each test, then "N passed, N failed"; exit code 0 only if none failed. README.md
describes the case files. Each case is played whole on TCP and on the unix socket, then cut in two
at every byte, byte by byte, behind two other requests, and three deep.
"""

import asyncio
import collections
import os
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import behaviour            # noqa: E402
import casefile             # noqa: E402
import children             # noqa: E402
import player               # noqa: E402
import report               # noqa: E402
from demo import Demo, DemoError, slowness  # noqa: E402

AT_ONCE = 32                # connections of one process that plays cases
SOME_CUTS = 12              # of a case with --some-cuts, in all configurations but the first
PART = 6000                 # plays of one process, about
GIVE_UP = 3                 # failed plays of one case
# What the cases of a file with "instance NAME" run against.
INSTANCES = {
    "default": [],
    "small": ["--max-body", "1000", "--ws-max-message", "1000"],
    "impatient": ["--head-timeout-ms", "500", "--idle-timeout-ms", "700",
                  "--body-timeout-ms", "500", "--write-timeout-ms", "700",
                  "--close-timeout-ms", "500"],
    "files": ["--files", "site"],       # what lies in it: site_files.py
    "deflate": ["--deflate", "--deflate-min", "64", "--ws-max-message", "1000"],
    "takeover": ["--deflate=takeover", "--deflate-min", "64", "--ws-max-message", "1000"],
    "three": ["--max-requests", "3"],
    "heartbeat": ["--ws-ping-ms", "300", "--ws-dead-ms", "900"],
}


def variants(case, turn):
    """[(address index, cut)] of all plays of a case. turn: None for every cut, or a number that
    picks some of them."""
    plays = [(0, player.WHOLE), (1, player.WHOLE)]
    cuts = case.cuts()
    if turn is not None and len(cuts) > SOME_CUTS:
        first = turn * len(cuts) // SOME_CUTS // len(report.CONFIGURATIONS)
        cuts = [cuts[first + i * len(cuts) // SOME_CUTS] for i in range(SOME_CUTS)]
    plays += [(cut % 2, cut) for cut in cuts]
    if case.byte_by_byte():
        plays += [(0, player.BYTEWISE), (1, player.BYTEWISE)]
    if case.behind_others():
        plays.append((0, player.BEHIND))
    if case.three_deep():
        plays.append((1, player.THREE_DEEP))
    return plays


def shaped(case, cut):
    """The case and the cut to play for a variant."""
    if cut == player.BEHIND:
        return case.behind_others(), player.WHOLE
    if cut == player.THREE_DEEP:
        return case.three_deep(), player.WHOLE
    return case, cut


def cut_name(cut):
    return {player.WHOLE: "whole", player.BYTEWISE: "byte by byte", player.BEHIND: "behind two others",
            player.THREE_DEEP: "three deep"}.get(cut, "cut at %d" % cut)


async def play_all(cases, demos, turn, factor):
    """Plays them, AT_ONCE at a time: [what was wrong, ...] for each. A case that has failed GIVE_UP
    times is not played further."""
    plays = iter([(n, case, where, cut) for n, case in enumerate(cases)
                  for where, cut in variants(case, turn)])
    wrongs = [[] for _ in cases]

    async def worker():
        for number, case, where, cut in plays:
            demo = demos[case.instance]
            if len(wrongs[number]) >= GIVE_UP:
                continue
            wrong = await player.play(*shaped(case, cut), (demo.tcp, demo.unix)[where], factor)
            if wrong:
                wrongs[number].append("%s, %s: %s" % (("tcp", "unix")[where], cut_name(cut), wrong))

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
    return wrongs


def play_part(part, config, turn, cases, build):
    """Cases against demos of their own, then the state in which they left them:
    [(name, what is wrong or None)]."""
    factor = slowness(build)
    demos, results = {}, []
    try:
        for name in sorted({case.instance for case in cases}):
            demos[name] = Demo(build, config.options + INSTANCES[name])
            demos[name].__enter__()
        fresh = {name: demo.descriptors() for name, demo in demos.items()}
        for case, wrong in zip(cases, asyncio.run(play_all(cases, demos, turn, factor))):
            results.append((case_name(case, config),
                            "; ".join(wrong[:2]) + (" (and more)" if len(wrong) > 2 else "")
                            if wrong else None))
        for name, demo in demos.items():
            results.append(("the_%s_demo_is_well_after_its_cases (%s, %s)"
                            % (name, part, config.label),
                            aftermath(demo, config.descriptors_with(0, fresh[name]), factor)))
    except DemoError as fault:
        results.append(("the_demo_starts (%s, %s)" % (part, config.label), str(fault)))
    finally:
        for demo in demos.values():
            demo.__exit__()
    return results


def aftermath(demo, base, factor):
    """Answers, holds no descriptor of the cases, stops with code 0; None or what is wrong."""
    if demo.process.poll() is not None:
        return "it is gone, code %d: %s" % (demo.process.returncode,
                                            "; ".join(demo.faults()[:5]) or demo.errors()[-500:])
    ping = casefile.Case("ping", "")
    ping.end = "open"
    for address in (demo.tcp, demo.unix):
        wrong = asyncio.run(player.play(ping, player.WHOLE, address, factor))
        if wrong:
            return "/ping: " + wrong
    have = demo.descriptors_fall_to(base, 8 * factor)
    stopped = demo.stop(limit=10)
    if stopped is None and have > base:
        return "%d descriptors wanted after the cases, %d are open" % (base, have)
    return stopped


def case_name(case, config):
    return "%s (%s, %s)" % (case.name, case.place, config.label)


def parts_of(cases, config, args):
    """The cases of a configuration as tasks: [(label, function)]; first the one in which time is
    measured."""
    number = [c.label for c in report.CONFIGURATIONS].index(config.label)
    turn = number if number and args.some_cuts else None
    wanted = [c for c in cases if args.only in case_name(c, config)]
    timed = [c for c in wanted if c.instance == "impatient"]
    others = [c for c in wanted if c.instance != "impatient"]
    count = sum(len(variants(c, turn)) for c in others) // PART + 1
    tasks = []
    for n, some in enumerate([timed] + [others[n::count] for n in range(count)]):
        part = "part %d of %d" % (n + 1, count + 1)
        tasks.append((config.label, lambda part=part, some=some: play_part(
            part, config, turn, some, args.build) if some else []))
    return tasks


def perform(out, tasks, at_once, seconds):
    for number, results, took in children.run([function for _, function in tasks], at_once):
        label = tasks[number][0]
        seconds[label] += took
        if results is None:
            results = [("a_process_of_the_tests_ends_well (%s)" % label, "it broke down")]
        for name, wrong in results:
            out.result(name, wrong)


def main():
    args = report.options(__doc__.split("\n")[0])
    out = report.Report()
    started = time.monotonic()
    seconds = collections.Counter()
    try:
        cases = casefile.load_all(os.path.dirname(os.path.abspath(__file__)))
    except casefile.CaseError as fault:
        print(fault, file=sys.stderr)
        return 2
    timed, others = [], []
    for config in args.chosen:
        first, *rest = parts_of(cases, config, args)
        timed.append(first)
        others += rest
    for config in args.chosen:
        others += behaviour.tasks(config, args)
    # Those that measure time mostly wait: all at once, with nothing beside them.
    perform(out, timed, len(timed), seconds)
    perform(out, others, args.jobs, seconds)
    print("%.0f s; by configuration, some at a time: %s"
          % (time.monotonic() - started,
             ", ".join("%s %.0f s" % (label, s) for label, s in seconds.items())))
    return out.end()


if __name__ == "__main__":
    sys.exit(main())
