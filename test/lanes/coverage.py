#!/usr/bin/python3
"""Says which lines of the extension the tests reached, and judges that.

coverage.py TREE

TREE was compiled with --coverage, and its tests have run.  What a line is, and
whether it was reached, is gcov's word.  Lines that no test reaches are marked
in the source, with the reason, in the way of PostgreSQL and lcov:

    /* LCOV_EXCL_START: the reason */
    ...
    /* LCOV_EXCL_STOP */

    a line;                         /* LCOV_EXCL_LINE: the reason */

A reason that begins with "sometimes: " says that some runs reach the lines.

Rules, each file being one test:
    - every line of the pure part is reached, or marked;
    - of the rest, 95 % of all lines are reached, and the others are marked;
    - what is marked is code and is not reached, so that the marks stay true.
"""

import collections
import glob
import json
import os
import re
import subprocess
import sys

PURE = re.compile(r"ring/")
ENOUGH = 95
DIRECTORIES = ("extension/src", "extension/src/ring")

# Lines that need not be reached, the first and the last one, and whether some
# runs reach them.
Excluded = collections.namedtuple("Excluded", "first last sometimes")
MARK = re.compile(r"LCOV_EXCL_(START|STOP|LINE)(?:: (sometimes: )?(?=[^\s*]))?")


def gcov_says(tree):
    """One JSON document for every object file of the tree."""
    for directory in (*DIRECTORIES, "test/build/pure"):
        directory = os.path.join(tree, directory)
        notes = sorted(glob.glob(os.path.join(directory, "*.gcno")))
        run = subprocess.run(["gcov", "--json-format", "--stdout", *notes],
                             cwd=directory, check=True,
                             stdout=subprocess.PIPE)
        for document in run.stdout.splitlines():
            yield json.loads(document)


def read_counts(tree):
    """How often each line of each source file ran, all objects together, as
    {file: {number: count}}."""
    files = collections.defaultdict(collections.Counter)
    for document in gcov_says(tree):
        for file in document["files"]:
            source = re.search(r"extension/src/((?:ring/)?\w+\.[ch])$",
                               file["file"])
            if source is not None:
                for line in file["lines"]:
                    # a count of 0 makes an entry, too
                    files[source.group(1)][line["line_number"]] += line["count"]
    return files


def read_sources(tree):
    """The lines of every source file, as {file: [text]}."""
    root = os.path.join(tree, DIRECTORIES[0])
    sources = {}
    for directory in DIRECTORIES:
        for path in glob.glob(os.path.join(tree, directory, "*.[ch]")):
            with open(path) as file:
                sources[os.path.relpath(path, root)] = file.read().splitlines()
    return sources


def read_marks(name, text):
    """The Excluded of a file."""
    excluded, start = [], None
    for number, line in enumerate(text, 1):
        mark = MARK.search(line)
        if mark is None:
            continue
        kind, sometimes = mark.group(1), mark.group(2) is not None
        reason = line[mark.start():mark.end()].endswith(": ")
        if reason == (kind == "STOP") or (start is None) == (kind == "STOP"):
            sys.exit(f"{name}:{number}: no reason, or out of order: "
                     f"{line.strip()}")
        if kind == "START":
            start = number, sometimes
        elif kind == "STOP":
            excluded.append(Excluded(start[0], number, start[1]))
            start = None
        else:
            excluded.append(Excluded(number, number, sometimes))
    if start is not None:
        sys.exit(f"{name}:{start[0]}: no LCOV_EXCL_STOP")
    return excluded


def judge(lines, excluded):
    """What is wrong with the lines of a file: (number, reason)."""
    where = {number: place for place in excluded
             for number in range(place.first, place.last + 1)}
    for number, count in sorted(lines.items()):
        place = where.get(number)
        if count == 0 and place is None:
            yield number, "not reached"
        elif count > 0 and place is not None and not place.sometimes:
            yield number, "marked, but reached"
    for place in excluded:
        if not any(place.first <= number <= place.last for number in lines):
            yield place.first, "marked, but no code"


def main():
    (tree,) = sys.argv[1:]
    files, sources = read_counts(tree), read_sources(tree)
    failed = rest = rest_missed = 0
    names = sorted(name for name, text in sources.items()
                   if name in files or any(map(MARK.search, text)))
    print(f"{'file':20} {'lines':>6} {'missed':>6} {'reached':>8}")
    for name in names:
        lines = files[name]
        holes = sum(count == 0 for count in lines.values())
        if not PURE.match(name):
            rest += len(lines)
            rest_missed += holes
        share = 100 - 100 * holes / max(len(lines), 1)
        print(f"{name:20} {len(lines):6} {holes:6} {share:6.1f} %")
        wrong = list(judge(lines, read_marks(name, sources[name])))
        for number, reason in wrong:
            text = sources[name][number - 1].strip()
            print(f"    {name}:{number}: {reason}: {text}")
        failed += bool(wrong)
    share = 100 - 100 * rest_missed / rest
    print(f"{'all but the pure part':20} {rest:5} {rest_missed:6} {share:6.1f} %")
    failed += share < ENOUGH
    print(f"{len(names) + 1 - failed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
