#!/usr/bin/python3
"""bench.py: runs all parts of the benchmark; called by run.sh."""
import os

import growth, guard, misplaced, moving, outside, routing, shards
from report import Report
from session import Session


def main():
    quick = bool(os.environ.get('QUICK'))
    keys, many, runs = (100_000, 1_000_000, 5) if quick else (
        200_000, 10_000_000, 5)
    report = Report()
    with Session() as session:
        routing.prepare(session, keys)
        moving.prepare(session, many)
    routing.measure(report, keys, runs)
    routing.measure_first_call(report, runs)
    routing.measure_statements(report, 5000 if quick else 10_000, runs)
    routing.measure_parallel(report, many * 3 // 10, runs)
    outside.measure_plproxy(report, 5000, runs)
    guard.measure(report, 5000 if quick else 20_000, runs)
    misplaced.measure(report, 1_000_000, runs)
    shards.measure(report, runs)
    moving.measure(report, many, runs)
    moving.measure_defining(report, runs)
    growth.measure(report, keys, runs)
    growth.measure_memory(report, 20 * keys if quick else 50 * keys,
                          500 if quick else 10_000)
    outside.measure(report, runs)
    with Session() as session:
        table = report.markdown(
            session, 'make bench QUICK=1' if quick else 'make bench')
    print(table)
    if not quick or os.environ.get('SAVE'):
        report.save(table)


main()
