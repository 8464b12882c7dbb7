# needs: mkdocs material numpy torch
"""The documentation site: it is made without a warning, no link of it is dead, nothing is loaded from other hosts, and Chromium
shows its pages, wide and narrow, light and dark.

WHET_KEEP_SCREENSHOTS=FOLDER keeps pictures of some pages for people to look at.
"""

import functools
import html.parser
import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.parse

from check import check, main, skip, test

SOURCE = pathlib.Path(os.environ["WHET_SOURCE_DIR"])
SCRATCH = tempfile.TemporaryDirectory()


@functools.lru_cache
def site():
    """The folder of the site, made once."""
    if os.environ.get("WHET_INSTRUMENTED") or not os.environ.get("WHET_BIN"):
        skip("needs the program and a library without sanitizers")
    folder = pathlib.Path(SCRATCH.name) / "site"
    done = subprocess.run([sys.executable, SOURCE / "tools/make-docs.py", "--out", folder, "--build", os.environ["WHET_BUILD_DIR"]],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    check(done.returncode == 0, done.stdout)
    check("WARNING" not in done.stdout, done.stdout)
    return folder


class Page(html.parser.HTMLParser):
    """Links, what is loaded, and anchors of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loaded, self.anchors = [], [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.anchors.update(given[name] for name in ("id", "name") if given.get(name))
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        elif given.get("src") or (tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload")):
            self.loaded.append(given.get("src") or given["href"])


def parsed():
    return {path.relative_to(site()).as_posix(): Page(path) for path in sorted(site().rglob("*.html")) if path.name != "404.html"}


@test
def no_link_is_dead():
    found, wrong, count = parsed(), [], 0
    for name, page in found.items():
        for link in page.links + page.loaded:
            if re.match(r"\w+:", link):
                continue
            path, _, anchor = link.partition("#")
            target = os.path.normpath(os.path.join(os.path.dirname(name), urllib.parse.unquote(path))) if path else name
            count += 1
            if target == "." or target.endswith("/."):
                target += "/index.html"
            if not (site() / target).is_file():
                wrong.append(f"{name}: {link}")
            elif anchor and target in found and urllib.parse.unquote(anchor) not in found[target].anchors:
                wrong.append(f"{name}: {link}: no such place")
    check(not wrong, "\n     ".join(["", *wrong]))
    check(count > 1000 and len(found) > 25, f"only {count} links on {len(found)} pages")


@test
def lists_and_tables_are_no_paragraphs():
    wrong, count = [], 0
    for path in sorted(site().rglob("*.html")):
        for text in re.findall(r"<p>(.*?)</p>", path.read_text(encoding="utf-8"), re.S):
            count += 1
            if re.search(r"^(?:[-*]|\d+\.) |^\|.*\|$", text, re.M):
                wrong.append(f"{path.name}: {text[:80]}")
    check(not wrong and count > 500, "\n     ".join(["", *wrong]))


@test
def every_document_is_a_page():
    for path in [*(SOURCE / "docs").glob("*.md"), *(SOURCE / "docs/notes").glob("*.md")]:
        page = path.relative_to(SOURCE / "docs").with_suffix(".html")
        check((site() / page).is_file(), f"{path.name} is not in the navigation")


@test
def nothing_is_loaded_from_other_hosts():
    loaded = [address for page in parsed().values() for address in page.loaded]
    check(len(loaded) > 100, "the test finds what is loaded")
    check(not [address for address in loaded if re.match(r"(\w+:)?//", address)], str(loaded))
    styles = " ".join(path.read_text(encoding="utf-8") for path in site().rglob("*.css"))
    check(not re.search(r"@import|url\(['\"]?(https?:)?//", styles), "a style sheet loads from elsewhere")


@test
def the_reference_has_everything():
    text = (site() / "reference/c.html").read_text(encoding="utf-8")
    recorded = (SOURCE / "tests/abi/recorded.txt").read_text(encoding="utf-8")
    for name in re.findall(r"^(?:symbol|struct) (whet_\w+)", recorded, re.M):
        check(f'id="{name}"' in text, f"C: {name} is missing")
    text = (site() / "reference/python.html").read_text(encoding="utf-8")
    for name in ("whet.softmax", "whet.attention", "whet.torch.Policy", "whet.torch.replace_attention", "whet.transformers.register",
                 "whet.clrs.generate", "whet.retrieval.load", "whet.gguf.tensors", "whet.probe", "whet.fit_polynomial"):
        check(f'id="{name.lower().replace(".", "")}"' in text, f"Python: {name} is missing")
    check("ForwardRef" not in text and "(self" not in text, "signatures as a caller sees them")
    check("<dt><code>is_causal</code></dt>" in text and "<td>two calls</td>" in text, "arguments are a list, columns a table")
    check("Set the extra representation" not in text, "torch's own words about a method")
    text = (site() / "reference/program.html").read_text(encoding="utf-8")
    for name in ("whet-softmax", "whet-clrs-generate", "whet-gguf", "whet-lm-train"):
        check(f'id="{name}"' in text, f"program: {name} is missing")
    names = subprocess.run([os.environ["WHET_BIN"], "policies", "--names"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    text = (site() / "reference/policies.html").read_text(encoding="utf-8").replace("<wbr>", "")
    check(names and all(name.rstrip(":") in text for name in names), "a policy is missing")


# ---- in a browser ----

FRAMES = """<body><script>
const results = [];
async function look(page, width) {
    const frame = document.createElement('iframe');
    frame.style = `width:${width}px;height:900px;border:0`;
    frame.src = page;
    await new Promise(done => { frame.onload = done; document.body.append(frame); });
    await new Promise(done => setTimeout(done, 300));
    const inside = frame.contentDocument, view = frame.contentWindow;
    const rgb = view.getComputedStyle(inside.body).backgroundColor.match(/\\d+/g).map(Number);
    const pictures = [...inside.images];
    results.push({page, width, title: inside.title, overflows: inside.documentElement.scrollWidth > view.innerWidth,
        broken: pictures.filter(p => !p.complete || !p.naturalWidth).length,
        small: pictures.filter(p => p.getBoundingClientRect().width < Math.min(p.naturalWidth, 600) - 1).length,
        unlinked: pictures.filter(p => !p.closest('article a')).length, undescribed: pictures.filter(p => !p.alt).length,
        foreign: view.performance.getEntriesByType('resource').filter(r => !r.name.startsWith(location.origin)).length,
        is_dark: rgb[0] + rgb[1] + rgb[2] < 384, text: inside.querySelector('article').innerText.length});
    frame.remove();
}
(async () => {
    for (const page of PAGES) for (const width of [380, 1300]) await look(page, width);
    const output = document.createElement('output');
    output.textContent = JSON.stringify(results);
    document.body.append(output);
})();
</script></body>"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def browse(address, *options):
    """The page's DOM after its scripts, and what it printed on the console. Chromium may hang while it starts on a busy machine."""
    for is_last in (False, True):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
            try:
                done = subprocess.run(
                    ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
                     "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
                     f"--user-data-dir={profile}", "--enable-logging=stderr", "--virtual-time-budget=60000", *options, address],
                    capture_output=True, text=True, check=False, timeout=120)
            except subprocess.TimeoutExpired:
                if is_last:
                    raise
                continue
        return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@test
def chromium_shows_the_pages_wide_and_narrow_light_and_dark():
    if not shutil.which("chromium"):
        skip("needs chromium")
    shown = list(parsed())
    (site() / "frames.html").write_text(FRAMES.replace("PAGES", json.dumps(shown)), encoding="utf-8")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site())))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    try:
        for is_dark in (False, True):
            scheme = ["--blink-settings=preferredColorScheme=0"] if is_dark else []
            dom, console = browse(f"{address}/frames.html", "--dump-dom", *scheme)
            found = re.search(r"<output>(.*)</output>", dom)
            check(found, "the pages were not shown")
            results = json.loads(found.group(1).replace("&amp;", "&"))
            check(len(results) == 2 * len(shown) and not console, f"{len(results)} pages, {console}")
            for result in results:
                good = not (result["overflows"] or result["broken"] or result["undescribed"] or result["foreign"] or result["small"] or
                            result["unlinked"])
                check(good and result["is_dark"] == is_dark and result["text"] > 200, str(result))
            keep = os.environ.get("WHET_KEEP_SCREENSHOTS")
            for name in ("index", "python", "polynomial", "reference/policies") if keep else ():
                for width in (500, 1300):
                    picture = pathlib.Path(keep) / f"site-{name.replace('/', '-')}-{width}-{'dark' if is_dark else 'light'}.png"
                    browse(f"{address}/{name}.html", f"--window-size={width},1400", f"--screenshot={picture}", *scheme)
    finally:
        server.shutdown()


main()
