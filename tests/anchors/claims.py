"""Do CCP and HPL gain over what they are built on, at equal settings? A table, then one JSON line.

Contrastive against its proxy version with one problem (`one_problem.py`) and CCP; proxy-anchor against HPL over it. No
value is searched and none was chosen by what came out: those that two methods share are the same.

    contrastive         pos_margin .2858, neg_margin .513: the papers' for SOP, where classes are many and small too
    one problem, CCP    these margins; P 4, pool 7; CCP: lambda 2e-4, batch_weight 0: the paper's for SOP
    proxy-anchor        margin .1, alpha 32: its paper's; w_lr 100 times the network's rate, as in the CCP paper
    HPL                 these; n_coarse_1 10, the paper's for Cars196; omega_1 .1, update_every 100: choices

A claim holds if the 95 % intervals of the paired differences of the runs' MAP@R lie above 0, separated and
concatenated; exit code 1 if one does not. `problems` is the mean number of CCP's problems in a fold model: where it is
1, no problem ended within the budget, and CCP is its proxy version bit for bit.

`mini` is the published protocol, from random weights. `lite` is derived so that it fits on two cores: crops of 96 px
out of 108 (published: 227 of 256), at most 300 steps.

    python tests/anchors/claims.py mini path/to/omniglot [--runs 10] [--store FILE] [--set field=value]
    python tests/anchors/claims.py lite path/to/omniglot [--runs 3]
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from suites import Methods, by_run, command, final_records, folds_of, leave, with_interval

from benchmark.methods.entry import Value
from protocols.catalogue import protocol_named
from protocols.derive import derive
from reports.frame import SETTINGS
from reports.statistics.intervals import mean_interval
from results.record import Record

ONE_PROBLEM = f"{Path(__file__).with_name('one_problem.py').as_posix()}:OneProblem"
LABELS = {
    "contrastive": "contrastive",
    ONE_PROBLEM: "one problem",
    "ccp-contrastive": "CCP",
    "proxy-anchor": "proxy-anchor",
    "hpl-proxy-anchor": "HPL",
}
CLAIMS = (("CCP", "contrastive"), ("CCP", "one problem"), ("HPL", "proxy-anchor"))
PROTOCOLS: Mapping[str, tuple[str, ...]] = {
    "mini": (),
    "lite": ("transforms.resize_px=108", "transforms.crop_px=96", "schedule.max_steps=300"),
}
N_RUNS = {"mini": 10, "lite": 3}

Found = Mapping[str, Mapping[str, Sequence[float]]]  # MAP@R by label and setting, a value for each run


def methods(network_lr: float) -> Methods:
    """The values of every method, for a network that learns at this rate."""
    margins: dict[str, Value] = {"pos_margin": 0.2858, "neg_margin": 0.513}
    proxies: dict[str, Value] = {**margins, "n_proxies": 4, "pool_size": 7}
    anchor: dict[str, Value] = {"margin": 0.1, "alpha": 32.0, "w_lr": 100 * network_lr}
    return {
        "contrastive": margins,
        ONE_PROBLEM: proxies,
        "ccp-contrastive": {**proxies, "lambda": 2e-4, "batch_weight": 0.0},
        "proxy-anchor": anchor,
        "hpl-proxy-anchor": {**anchor, "n_coarse_1": 10, "omega_1": 0.1, "update_every": 100},
    }


def map_at_r(records: Sequence[Record]) -> Found:
    """What the final runs found."""
    by_setting = {setting: by_run(records, "map_at_r", setting) for setting in SETTINGS}
    return {label: {setting: by_setting[setting][name] for setting in SETTINGS} for name, label in LABELS.items()}


def mean_problems(records: Sequence[Record]) -> float:
    """Problems in a fold model of CCP."""
    return fmean((fold.method_state or {})["n_problems"] for fold in folds_of(records, "ccp-contrastive"))


def gains(found: Found) -> Found:
    """The paired differences of the runs, by claim and setting."""
    return {
        f"{new} - {old}": {
            setting: [a - b for a, b in zip(found[new][setting], found[old][setting], strict=True)]
            for setting in SETTINGS
        }
        for new, old in CLAIMS
    }


def holds(gained: Mapping[str, Sequence[float]]) -> bool:
    """Whether the intervals of a claim's differences lie above 0; one run has no interval."""
    intervals = [mean_interval(values) for values in gained.values()]
    return all(found.half_width is not None and found.mean > found.half_width for found in intervals)


def table(found: Found, problems: float) -> str:
    """MAP@R of every method, then what every claim gains; both settings."""
    lines = [_line("MAP@R", SETTINGS, "problems")]
    for label, by_setting in found.items():
        cells = [with_interval(by_setting[setting]) for setting in SETTINGS]
        lines.append(_line(label, cells, f"{problems:.2f}" if label == "CCP" else ""))
    for claim, gained in gains(found).items():
        cells = [with_interval(gained[setting]) for setting in SETTINGS]
        lines.append(_line(claim, cells, "holds" if holds(gained) else "does not hold"))
    return "\n".join(lines)


def _line(head: str, cells: Sequence[str], tail: str) -> str:
    return "".join((f"{head:23}", *(f"{cell:20}" for cell in cells), tail)).rstrip()


def main() -> int:
    """Print what was found; 1 if a claim does not hold."""
    parser = command(__doc__)
    parser.add_argument("protocol", choices=PROTOCOLS)
    parser.add_argument("images", help="a folder of images")
    parser.add_argument("--runs", type=int, help="final runs of each method; default: 10 under mini, 3 under lite")
    asked = parser.parse_args()
    settings = (*PROTOCOLS[asked.protocol], f"n_runs={asked.runs or N_RUNS[asked.protocol]}")
    protocol = derive(protocol_named(asked.protocol), [*settings, *asked.settings])
    records = final_records(methods(protocol.optimiser.lr), asked.protocol, asked.images, settings, asked)
    found, problems = map_at_r(records), mean_problems(records)
    print(table(found, problems))
    held = {claim: holds(gained) for claim, gained in gains(found).items()}
    report = {
        "protocol": protocol.title,
        "digest": protocol.digest(),
        "map_at_r": found,
        "mean_problems": problems,
        "holds": held,
    }
    print(json.dumps(report))
    return int(not all(held.values()))


if __name__ == "__main__":
    leave(main)
