"""What all benchmarks share: interleaved medians, the machine, tables."""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"


def clock(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def cpu_clock(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of this process: for work on one thread of a machine that is shared."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def interleaved(contestants: dict[str, Callable[[], float]], repeats: int) -> dict[str, float]:
    """Median seconds of each contestant; they take turns, so that a noisy minute hits all of them."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(repeats):
        for name, run in contestants.items():
            times[name].append(run())
    return {name: statistics.median(values) for name, values in times.items()}


def geometric_mean(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))


def memory(kind: str) -> int:
    """Resident memory of this process in bytes: ``VmRSS`` now, ``VmHWM`` at its peak."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(next(line.split()[1] for line in status.splitlines() if line.startswith(kind)))


def metadata(packages: Sequence[str]) -> dict[str, Any]:
    model = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.processor(),
    )
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "command": "python " + " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "cpu": model,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
    }


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Markdown table of dictionaries with the same keys."""
    names = list(rows[0])
    cells = [[_cell(row[name]) for name in names] for row in rows]
    widths = [max(len(name), *(len(line[k]) for line in cells)) for k, name in enumerate(names)]
    lines = [names, ["-" * w for w in widths], *cells]
    return "\n".join("| " + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) + " |" for line in lines)


def save(name: str, rows: Sequence[dict[str, Any]], packages: Sequence[str]) -> None:
    """Print the table and write it, with the machine and the command, to results/<name>.json."""
    print(table(rows), flush=True)
    RESULTS.mkdir(exist_ok=True)
    content = {"metadata": metadata(packages), "rows": list(rows)}
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")


def _cell(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
