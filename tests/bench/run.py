"""`make bench`: every measurement, or those named: `make bench ARGS='rounds start'`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench import head, latency, panel, publish, rounds, start, whole

MEASUREMENTS = {
    "rounds": rounds.measure,
    "latency": latency.measure,
    "start": start.measure,
    "panel": panel.measure,
    "whole": whole.measure,
    "publish": publish.measure,
    "head": head.measure,
}


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in MEASUREMENTS]
    if unknown:
        print(f"no measurement {' '.join(unknown)}: there are {' '.join(MEASUREMENTS)}", file=sys.stderr)
        return 2
    for name in names or MEASUREMENTS:
        for figure in MEASUREMENTS[name]():
            print(figure, flush=True)
    return 0


sys.exit(main(sys.argv[1:]))
