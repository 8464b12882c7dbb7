// The page of `whet probe --html`: SCRATCH has heads.html and heads.json of the same run.
import { copyFileSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { check, finish, openBrowser, openPage } from "./browser.mjs";

const scratch = process.argv[2], file = join(scratch, "heads.html");
const told = JSON.parse(readFileSync(join(scratch, "heads.json"), "utf8"));
const browser = await openBrowser();
const { page, said, asked } = await openPage(browser, file);

check("a grid for each policy", (await page.locator(".grid").count()) === 2);
check("a square for each head", (await page.locator(".grid:first-of-type button").first().count()) === 1 && (await page.locator(".grid").first().locator("button").count()) === 40);

const last = told.sizes.length - 1;
const head = told.policies[0].heads.find((h) => h.layer === 2 && h.head === 5);
const square = page.locator(".grid").first().locator("button").nth(2 * 8 + 5);
const labelled = async () => Number((await square.getAttribute("aria-label")).match(/ (-?[\d.e-]+), [a-z ]+$/)[1]);
const near = (a, b) => Math.abs(a - b) <= 2e-3 * Math.max(0.01, Math.abs(b));
for (const [measure, expected] of [["entropy", head.entropy[last]], ["largest_weight", head.largest_weight[last]], ["sink_share", head.sink_share[last]], ["slope", head.slope],
    ["share", head.entropy[last] / Math.log(told.tokens[last])], ["called", head.beta_called_for[last]], ["exponent", head.exponent], ["within1", head.within[last][1]], ["retrieval", told.policies[0].retrieval.scores[2][5]]]) {
    await page.selectOption("#measure", measure);
    check(`${measure} is that of the JSON`, near(await labelled(), expected), `${await labelled()} ${expected}`);
}
await page.selectOption("#measure", "entropy");
check("the colours have a scale", (await page.textContent("#low")) === "0" && near(Number(await page.textContent("#high")), Math.log(told.tokens[last])));
await page.locator("#size").fill("0");
check("a shorter length shows its own numbers", near(await labelled(), head.entropy[0]));
await square.click();
check("a click shows the head's curves", /^Layer 2, head 5/.test(await page.textContent("#about")) && (await page.locator(".curves svg").count()) === 10);
const listed = await page.locator(".keys").first().locator("tbody tr").allTextContents();
const expectedKeys = head.largest_keys[0];
check("and its largest weights with their tokens", listed.length === expectedKeys.length && expectedKeys.every((k, i) => listed[i].startsWith(k.position.toLocaleString("en"))), listed.join("; "));
check("whose text is the prompt's", (await page.locator(".keys mark").first().textContent()) === expectedKeys[0].token.replace(/\n/g, "\u21b5"));
await page.keyboard.press("ArrowDown");
check("so do arrow keys", /^Layer 3, head 5/.test(await page.textContent("#about")));
await page.locator(".curves figure").first().locator("circle").last().hover();
check("hovering shows numbers", / tokens: /.test(await page.textContent("#tip")));

await page.selectOption("#kind", "disperses");
const dispersing = told.policies[0].heads.filter((h) => h.kind === "disperses").length;
check("a filter leaves heads that disperse", (await page.locator(".grid").first().locator("button:not(.dim)").count()) === dispersing);
await page.click("#unmark");
await page.click("#mark");
await page.fill("#policy", "adaptive:hold");
const [download] = await Promise.all([page.waitForEvent("download"), page.click("#export")]);
const config = JSON.parse(readFileSync(await download.path(), "utf8"));
check("marked heads become a WHET_CONFIG", JSON.stringify(config.rules) === '[{"layers":"3","heads":"5","policy":"adaptive:hold"}]', JSON.stringify(config));
copyFileSync(await download.path(), join(scratch, "config.json"));

for (const [name, width, colorScheme] of [["wide-light", 1300, "light"], ["wide-dark", 1300, "dark"], ["narrow-light", 390, "light"], ["narrow-dark", 390, "dark"]]) {
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme });
    await page.screenshot({ path: join(scratch, `explorer-${name}.png`), fullPage: true });
    if (process.env.WHET_KEEP_SCREENSHOTS) copyFileSync(join(scratch, `explorer-${name}.png`), join(process.env.WHET_KEEP_SCREENSHOTS, `explorer-${name}.png`));
    check(`${name}: nothing is wider than the window`, await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
}
check("nothing is printed on the console", said.length === 0, said.join("; "));
check("nothing is asked of any host", asked.length === 0, asked.join(" "));

// A recording of 32 x 32 heads, 16 sizes and 4 policies, and damaged ones.
const text = readFileSync(file, "utf8"), place = /(<script type="application\/json" id="data">)[^<]*/;
const write = (name, data) => {
    writeFileSync(join(scratch, name), text.replace(place, (_, tag) => tag + data));
    return join(scratch, name);
};
const sizes = Array.from({ length: 16 }, (_, i) => 2 ** (i + 2)), cells = 32 * 32 * 16;
const stretch = () => Array.from({ length: 1024 * 16 }, (_, i) => Number((1 + Math.sin(i * 3.7)).toPrecision(3)));
const along = () => Object.fromEntries(["entropy", "entropy_after", "largest_weight"].map((m) => [m, stretch()]));
const values = () => Array.from({ length: cells }, (_, i) => Number((1 + Math.sin(i * 7.13)).toPrecision(4)));
const measures = () => Object.fromEntries(["entropy", "entropy_after", "beta", "largest_weight", "sink_share"].map((m) => [m, values()]));
const large = { layers: 32, heads: 32, of: "tokens", model: "large.gguf", sizes, tokens: sizes,
    trends: Array.from({ length: 1024 }, (_, i) => [i >> 5, i & 31, i % 3 ? "diffuse" : "disperses", 0.5]),
    policies: ["softmax", "adaptive", "adaptive:hold", "length:64"].map((name) => ({ name, perplexity: null, right: [], measures: measures(), along: along() })),
    stretches: Array.from({ length: 17 }, (_, i) => 2 ** i), deltas: [0.5, 1, 2, 4, 8], called: values(), exponents: Array(1024).fill(0.73), within: Array.from({ length: cells * 5 }, (_, i) => 1 + (i % 977)) };
const opened = await openPage(browser, write("large.html", JSON.stringify(large)));
check("a model of 1,024 heads takes less than 5 MB", statSync(join(scratch, "large.html")).size < 5e6, String(statSync(join(scratch, "large.html")).size));
const drawn = await opened.page.evaluate(async () => {
    const began = performance.now();
    document.querySelectorAll(".grid button")[777].click();
    await new Promise(requestAnimationFrame);
    return performance.now() - began;
});
const took = await opened.page.evaluate(async () => {
    const began = performance.now();
    document.querySelector("#measure").value = "beta";
    document.querySelector("#measure").dispatchEvent(new Event("change"));
    await new Promise(requestAnimationFrame);
    return performance.now() - began;
});
console.log(`     another measure of 4 x 1,024 squares took ${took.toFixed(0)} ms, another head ${drawn.toFixed(0)} ms`);
check("and is shown", (await opened.page.locator(".grid button").count()) === 4096 && opened.said.length === 0);
for (const [name, data] of [["cut", JSON.stringify(large).slice(0, 5000)], ["empty", ""], ["short", JSON.stringify({ ...large, layers: 33 })], ["gaps", JSON.stringify({ ...large, called: [1, 2] })], ["null", "null"]]) {
    const damaged = await openPage(browser, write(`${name}.html`, data), { ready: false });
    check(`a damaged recording (${name}) gets a reason`, /damaged/.test(await damaged.page.textContent("#app")) && damaged.said.length === 0, damaged.said.join());
}

// The real recording with members left out or of another kind: a page without it, or a reason, and no exception.
const whole = JSON.parse(text.match(place)[0].slice(text.match(place)[1].length));
const changes = [];
for (const key of Object.keys(whole)) for (const value of [null, 7, [null]]) changes.push([`${key} ${JSON.stringify(value)}`, { ...whole, [key]: value }]);
for (const key of Object.keys(whole.policies[0])) for (const value of [null, 7, []]) changes.push([`policy's ${key} ${JSON.stringify(value)}`, { ...whole, policies: [{ ...whole.policies[0], [key]: value }, whole.policies[1]] }]);
const { page: victim, said: complaints } = await openPage(browser, file);
const wrong = [];
for (const [name, data] of changes) {
    complaints.length = 0;
    await victim.goto(pathToFileURL(write("changed.html", JSON.stringify(data))).href);
    await victim.evaluate(() => document.querySelector(".grid button")?.click());
    const shown = await victim.textContent("#app");
    if (complaints.length || !shown.trim()) wrong.push(`${name}: ${complaints.join("; ")}`);
}
check(`${changes.length} changed recordings cause no exception`, changes.length > 40 && wrong.length === 0, wrong.join("\n     "));
await browser.close();
finish();
