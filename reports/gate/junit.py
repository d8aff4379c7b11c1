"""Judgements as a JUnit XML file, which continuous integration shows beside the tests.

A failed gate is a failure; a comparison that could not be judged is an error. Names come from files and other people's
records, so characters that XML cannot hold are replaced.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal
from xml.etree import ElementTree

SUITE = "mlrc"
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, kw_only=True)
class Case:
    """One gate: what was compared, how it ended, and the lines that say why."""

    name: str
    outcome: Literal["passed", "failure", "error"]
    message: str
    text: str


def to_junit(cases: Iterable[Case]) -> str:
    """The XML text of one suite with these cases."""
    listed = list(cases)
    counts = {
        "tests": str(len(listed)),
        "failures": str(sum(case.outcome == "failure" for case in listed)),
        "errors": str(sum(case.outcome == "error" for case in listed)),
    }
    root = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(root, "testsuite", {"name": SUITE, **counts, "skipped": "0"})
    for case in listed:
        element = ElementTree.SubElement(suite, "testcase", {"classname": f"{SUITE}.gate", "name": _clean(case.name)})
        if case.outcome == "passed":
            ElementTree.SubElement(element, "system-out").text = _clean(case.text)
        else:
            attributes = {"message": _clean(case.message), "type": _clean(case.message.partition(":")[0])}
            ElementTree.SubElement(element, case.outcome, attributes).text = _clean(case.text)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _clean(text: str) -> str:
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)
