#!/usr/bin/python3
"""bench.py: runs all parts of the benchmark; called by run.sh."""
import os

import routing
from report import Report
from session import Session


def main():
    quick = bool(os.environ.get('QUICK'))
    keys, runs = (100_000, 5) if quick else (500_000, 5)
    report = Report()
    with Session() as session:
        routing.prepare(session, keys)
    routing.measure(report, keys, runs)
    routing.measure_first_call(report, runs)
    routing.measure_statements(report, 1 if quick else 5)
    routing.measure_parallel(report, runs)
    with Session() as session:
        table = report.markdown(
            session, 'make bench QUICK=1' if quick else 'make bench')
    print(table)
    if not quick:
        report.save(table)


main()
