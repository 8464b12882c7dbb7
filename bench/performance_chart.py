"""The chart of docs/PERFORMANCE.md: how close whet and its peers come to what the machine allows.

Each panel is a section of bench/peers.py, each group of bars one of its cases, in whose rounds all contenders took
turns. The top of a panel is the limit that `whet bench` measured for the same case: FMA peak, reading the same bytes,
copying the same rows. Bars carry their rates. The SVG is written by hand, so that it does not depend on the version of
a plotting program.
"""

import re
from html import escape

HEIGHT = 340
PANEL_TOP, PANEL_HEIGHT, PANEL_GAP, MARGIN = 74, 196, 46, 48
BAR, BAR_GAP, GROUP_GAP = 15, 2, 16

# Shorter cases are left to the tables, to keep the chart legible.
SHORTEST = {"prefill": 4096}

SERIES = (("whet", "#1f5fa8"), ("whet, adaptive", "#7fb2e5"), ("torch", "#d9822b"), ("onnxruntime", "#8a8f98"))


def contenders(case):
    """The best entry of each series, or None: those of whet by name, those of peers by their first word."""
    def best(found):
        return min(found, key=lambda entry: entry["seconds_best"], default=None)

    entries = case["entries"]
    named = {entry["name"]: entry for entry in entries}
    peers = [best([entry for entry in entries if entry["name"].startswith(peer) and "adaptive" not in entry["name"]])
             for peer in ("torch", "onnxruntime")]
    return [named.get("whet plain"), named.get("whet adaptive"), *peers]


def limit(record, section, case):
    """Seconds that the limit would take for the work of a case, or None where `whet bench` has no such case."""
    words = case["label"].split()
    n = next(int(word[2:].strip(",")) for word in words if word.startswith("n="))
    label, name = {"rows": (f"n={n}", "copy"),
                   "prefill": (f"d=128 n={n}" + (" causal" if "causal" in words else ""), "FMA peak"),
                   "decode": (f"f32 n={n}", "read")}[section]
    for measured in record.cases(section):
        if measured["label"] == label:
            entry = next(entry for entry in measured["entries"] if entry["name"] == name)
            return case["work"] * entry["seconds_best"] / entry["work"]
    return None


def groups(record, section):
    """(label, [(share of the limit, rate as text) or None for each series]) for every case with a limit."""
    for case in record.peer_cases(section):
        bound = limit(record, section, case)
        n = int(re.search(r"n=(\d+)", case["label"]).group(1))
        if bound is None or n < SHORTEST.get(section, 0):
            continue
        digits = 2 if case["unit"] == "ns a value" else 0 if case["unit"] == "GFLOP/s" else 1
        bars = [entry and (bound / entry["seconds_best"], f"{entry['rate_best']:.{digits}f}")
                for entry in contenders(case)]
        yield f"{n:,}" + (" causal" if "causal" in case["label"] else ""), bars


def text(x, y, words, size=12, anchor="middle", colour="#222", more=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}"{more}>'
            f"{escape(words)}</text>")


def scale(left, right):
    """Lines at every fifth of the limit, which is the top."""
    for share in (0, 20, 40, 60, 80, 100):
        y = PANEL_TOP + PANEL_HEIGHT * (1 - share / 100)
        colour, width = ("#b00020", 2) if share == 100 else ("#d8dbe0", 1)
        yield f'<line x1="{left}" y1="{y:.1f}" x2="{right:.1f}" y2="{y:.1f}" stroke="{colour}" stroke-width="{width}"/>'
        yield text(left - 6, y + 4, f"{share} %", 11, "end", "#555")


def bar(x, share, rate, colour):
    height = PANEL_HEIGHT * min(share, 1.08)
    y = PANEL_TOP + PANEL_HEIGHT - height
    inside = share > 0.8
    label_y = y + 4 if inside else y - 4
    upright = f' transform="rotate(-90 {x + BAR / 2 + 3.5:.1f} {label_y:.1f})"'
    yield f'<rect x="{x:.1f}" y="{y:.1f}" width="{BAR}" height="{height:.1f}" fill="{colour}"/>'
    yield text(x + BAR / 2 + 3.5, label_y, rate, 10, "end" if inside else "start", "#fff" if inside else "#222", upright)


def panel(left, title, top, unit, found):
    """A panel and its width."""
    width = GROUP_GAP
    parts = []
    for label, bars in found:
        start = left + width
        present = [(value, colour) for value, (_, colour) in zip(bars, SERIES) if value]
        for i, ((share, rate), colour) in enumerate(present):
            parts += bar(start + i * (BAR + BAR_GAP), share, rate, colour)
        group = len(present) * (BAR + BAR_GAP) - BAR_GAP
        lines = label.split(" ")
        for i, line in enumerate(lines):
            parts.append(text(start + group / 2, PANEL_TOP + PANEL_HEIGHT + 16 + 13 * i, line, 11))
        width += group + GROUP_GAP
    parts = [*scale(left, left + width), *parts]
    parts.append(text(left, PANEL_TOP - 26, title, 13, "start", more=' font-weight="bold"'))
    parts.append(text(left, PANEL_TOP - 9, f"100 % = {top}", 11, "start", "#b00020"))
    parts.append(text(left + width / 2, PANEL_TOP + PANEL_HEIGHT + 46, unit, 11, colour="#555"))
    return parts, width


def legend(y):
    x = MARGIN
    for name, colour in SERIES:
        yield f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{colour}"/>'
        yield text(x + 17, y, name, 12, "start")
        x += 40 + 7 * len(name)


PANELS = (("prefill", "Attention, f32, head size 128", "FMA peak", "keys and queries; numbers: GFLOP/s"),
          ("decode", "Decoding, f32", "reading the cache", "keys; numbers: GB/s"),
          ("rows", "Softmax of rows", "a copy", "row length; numbers: ns a value"))


def draw(record):
    left, parts = MARGIN, []
    for section, title, top, unit in PANELS:
        found = list(groups(record, section))
        if found:
            drawn, width = panel(left, title, top, unit, found)
            parts += drawn
            left += width + PANEL_GAP
    width = max(left - PANEL_GAP + 12, 400)
    machine = f"{record.bench['cpu']}, {record.bench['isa']}, one thread, {record.run['date']}"
    parts = [*legend(22), text(width - 12, 22, machine, 11, "end", "#555"), *parts]
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {HEIGHT}" width="{width:.0f}" '
            f'height="{HEIGHT}" font-family="sans-serif">\n<title>Share of the machine\'s limits that whet and its '
            f'peers reach</title>\n<rect width="100%" height="100%" fill="#fff"/>\n')
    return head + "\n".join(parts) + "\n</svg>\n"
