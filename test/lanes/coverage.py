#!/usr/bin/python3
"""Says which lines of the extension the tests reached, and judges that.

coverage.py TREE LIST

TREE was compiled with --coverage, and its tests have run.  What a line is, and
whether it was reached, is gcov's word.  LIST names the lines that no test
reaches, and says why; it describes itself.

Rules, each file being one test:
    - every line of the pure part is reached, or listed;
    - of the rest, 95 % of all lines are reached, and the others are listed;
    - what is listed is there and is not reached, so that the list stays true.
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

# Where a line stands, as the list names it.
Place = collections.namedtuple("Place", "file function text")


def gcov_says(tree):
    """One JSON document for every object file of the tree."""
    for directory in ("extension/src", "extension/src/ring",
                      "test/build/pure"):
        directory = os.path.join(tree, directory)
        notes = sorted(glob.glob(os.path.join(directory, "*.gcno")))
        run = subprocess.run(["gcov", "--json-format", "--stdout", *notes],
                             cwd=directory, check=True,
                             stdout=subprocess.PIPE)
        for document in run.stdout.splitlines():
            yield json.loads(document)


def read_counts(tree):
    """How often each line of each source file ran, all objects together, as
    {file: {number: [count, function]}}."""
    files = collections.defaultdict(dict)
    for document in gcov_says(tree):
        for file in document["files"]:
            source = re.search(r"extension/src/((?:ring/)?\w+\.[ch])$",
                               file["file"])
            if source is None:
                continue
            name = source.group(1)
            for line in file["lines"]:
                seen = files[name].setdefault(
                    line["line_number"], [0, line.get("function_name", "")])
                seen[0] += line["count"]
    return files


def missed_lines(tree, files):
    """The lines that never ran, as {file: [(number, Place)]}."""
    missed = {}
    for name, lines in files.items():
        with open(os.path.join(tree, "extension/src", name)) as source:
            text = source.read().splitlines()
        missed[name] = [
            (number, Place(name, function, text[number - 1].strip()))
            for number, (count, function) in sorted(lines.items())
            if count == 0]
    return missed


def read_list(path):
    """Two counters of Places: that are not reached, and that need not be."""
    never, hardly = collections.Counter(), collections.Counter()
    waiting = False
    with open(path) as file:
        for line in file.read().splitlines():
            entry = re.match(r"(\? )?(\S+) (\w+): (.+)$", line)
            if entry:
                place = Place(*entry.group(2, 3, 4))
                (hardly if entry.group(1) else never)[place] += 1
                waiting = True
            elif line.startswith("\t") and line.strip():
                waiting = False
            elif waiting or line and not line.startswith("#"):
                sys.exit(f"{path}: no reason, or not understood: {line!r}")
    if waiting:
        sys.exit(f"{path}: the last entry has no reason")
    return never, hardly


def judge(name, missed, never, hardly):
    """What is wrong with the missed lines of a file, as sentences."""
    for number, place in missed:
        if never[place] > 0:
            never[place] -= 1
        elif hardly[place] > 0:
            hardly[place] -= 1
        else:
            yield f"{name}:{number}: not reached: {place.text}"
    for place, count in never.items():
        if place.file == name and count > 0:
            yield (f"{name}: listed, but reached or not there: "
                   f"{place.function}: {place.text}")


def main():
    tree, path = sys.argv[1:]
    files = read_counts(tree)
    missed = missed_lines(tree, files)
    never, hardly = read_list(path)
    failed = rest = rest_missed = 0
    print(f"{'file':20} {'lines':>6} {'missed':>6} {'reached':>8}")
    for name in sorted(files):
        lines, holes = len(files[name]), len(missed[name])
        if not PURE.match(name):
            rest += lines
            rest_missed += holes
        print(f"{name:20} {lines:6} {holes:6} {100 - 100 * holes / lines:6.1f} %")
        wrong = list(judge(name, missed[name], never, hardly))
        for sentence in wrong:
            print(f"    {sentence}")
        failed += bool(wrong)
    unknown = {place.file for place in never + hardly} - set(files)
    for name in sorted(unknown):
        print(f"listed, but there is no such file: {name}")
    share = 100 - 100 * rest_missed / rest
    print(f"{'all but the pure part':20} {rest:5} {rest_missed:6} {share:6.1f} %")
    tests = len(files) + 2
    failed += bool(unknown) + (share < ENOUGH)
    print(f"{tests - failed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
