"""docs/PERFORMANCE.md and README.md show what docs/performance/ records, as bench/performance.py writes it."""

import copy
import os
import pathlib
import re
import sys
import xml.etree.ElementTree

from check import check, main, test

SOURCE = pathlib.Path(os.environ["WHET_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "bench"))
import performance
import performance_chart


def record():
    return performance.Record(SOURCE / "docs/performance")


def markers(name):
    text = (SOURCE / name).read_text(encoding="utf-8")
    return re.findall(r"<!-- performance: (\w+) -->\n(.*?)<!-- end -->", text, flags=re.S)


@test
def committed_tables_and_chart_match_the_record():
    found = performance.stale(record())
    check(not found, f"run bench/performance.py write; not up to date: {', '.join(map(str, found))}")


@test
def another_record_changes_every_document():
    changed = copy.deepcopy(record())
    for section in changed.bench["sections"]:
        for case in section["cases"]:
            for entry in case["entries"]:
                entry["rate_best"] *= 2
    for case in changed.peers["cases"]:
        for entry in case["entries"]:
            entry["seconds_best"] *= 2
    found = {str(path) for path in performance.stale(changed)}
    expected = {*performance.DOCUMENTS, performance.CHART}
    check(found == expected, f"only {found}")


@test
def every_table_is_shown_once_and_has_rows():
    shown = [marker for name in performance.DOCUMENTS for marker in markers(name)]
    names = sorted(name for name, _ in shown)
    check(names == sorted(performance.TABLES), f"shown: {names}")
    for name, text in shown:
        rows = [line for line in text.splitlines() if line.startswith("| ")]
        check(len(rows) > 1, f"the table {name} is empty")


@test
def no_document_has_a_comment_that_is_not_closed():
    for name in performance.DOCUMENTS:
        text = (SOURCE / name).read_text(encoding="utf-8")
        check(text.count("<!-- performance:") == text.count("<!-- end -->") == len(markers(name)), name)


@test
def a_disturbed_case_neither_meets_nor_misses_its_target():
    case = {"label": "n=4096", "disturbed": True}
    entry = {"share": {"best": 0.5, "median": 0.4, "at_least": 0.75, "met": False}}
    shown = performance.figure(case, entry, "share", performance.percent)
    check(shown == "50 % (40 %), target ≥ 75 %: disturbed", shown)
    shown = performance.figure({"label": ""}, entry, "share", performance.percent)
    check(shown == "50 % (40 %), target ≥ 75 %: **missed**", shown)


@test
def a_bar_is_as_tall_as_its_share_of_the_limit():
    drawn = xml.etree.ElementTree.fromstring("<g>" + "".join(performance_chart.bar(10, 0.25, "7", "#000")) + "</g>")
    height = float(drawn.find("rect").get("height"))
    check(abs(height - 0.25 * performance_chart.PANEL_HEIGHT) < 0.1, f"{height}")


@test
def the_chart_is_well_formed_and_has_a_bar_for_every_contender():
    kept = record()
    root = xml.etree.ElementTree.fromstring(performance_chart.draw(kept))
    colours = [rect.get("fill") for rect in root.iter("{http://www.w3.org/2000/svg}rect")]
    for name, colour in performance_chart.SERIES:
        check(colours.count(colour) > 3, f"{name}: {colours.count(colour)} bars")


main()
