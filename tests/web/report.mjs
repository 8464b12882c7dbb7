// The page of `whet reproduce`: numbers under the pointer and by arrow keys are those of data/*.csv, curves can be switched off, and
// without scripts everything is still there.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { check, finish, openBrowser, openPage } from "./browser.mjs";

const folder = process.argv[2], file = join(folder, "index.html");
const browser = await openBrowser();
const { page, said, asked } = await openPage(browser, file);
const rows = (name) => {
    const [head, ...lines] = readFileSync(join(folder, "data", `${name}.csv`), "utf8").trim().split(/\r?\n/).map((line) => line.split(","));
    return lines.map((line) => Object.fromEntries(head.map((column, i) => [column, line[i]])));
};
const near = (a, b) => Math.abs(a - b) <= 2e-3 * Math.max(1, Math.abs(b));
const numbersOf = (text) => [...text.replace(/(\d),(?=\d{3})/g, "$1").matchAll(/: (-?[\d.]+(?:e[+-]?\d+)?)/g)].map((m) => Number(m[1]));

// A point of a figure's picture, under the pointer.
const hover = async (figure, x, y) => {
    await page.evaluate((name) => document.getElementById(name).scrollIntoView(), figure);
    const at = await page.evaluate(([name, px, py]) => {
        const svg = document.querySelector(`#${name} .drawn`).shadowRoot.querySelector("svg");
        const { x: left, y: top } = new DOMPoint(px, py).matrixTransform(svg.getScreenCTM());
        return [left, top];
    }, [figure, x, y]);
    await page.mouse.move(at[0], at[1]);
    return page.textContent(".tip");
};
const panelsOf = (figure) => page.evaluate((name) => JSON.parse(document.querySelector(`#${name} .drawn`).shadowRoot.querySelector("metadata").textContent), figure);
const pointOf = (panel, height, x, y) => {
    const [x0, x1, y0, y1, left, right, low, high] = panel.axes;
    const share = (from, to, isLog, v) => (isLog ? Math.log(v / from) / Math.log(to / from) : (v - from) / (to - from));
    return [left + share(x0, x1, panel.logX, x) * (right - left), height - low - share(y0, y1, panel.logY, y) * (high - low)];
};
const heightOf = (figure) => page.evaluate((name) => document.querySelector(`#${name} .drawn`).shadowRoot.querySelector("svg").viewBox.baseVal.height, figure);

// Only one curve, so that no other is in the way; then every point of it.
const alone = (figure, name) => page.evaluate(([f, n]) => document.querySelectorAll(`#${f} .switches button`).forEach((b) => b.textContent !== n && b.getAttribute("aria-pressed") === "true" && b.click()), [figure, name]);
for (const [figure, data, column, factor] of [["accuracy-f32", "accuracy-f32", "accuracy", 100], ["entropy", "accuracy-f32", "entropy", 1]]) {
    const [panel] = await panelsOf(figure), height = await heightOf(figure);
    await alone(figure, "adaptive");
    const expected = rows(data).filter((row) => row.policy === "adaptive");
    let right = 0, last = "";
    for (const row of expected) {
        last = await hover(figure, ...pointOf(panel, height, Number(row.n), factor * Number(row[column])));
        const [n, value] = numbersOf(last ?? "");
        right += /^adaptive/.test(last) && n === Number(row.n) && near(value, factor * Number(row[column])) ? 1 : 0;
    }
    check(`${figure}: every point of adaptive has its number`, expected.length > 5 && right === expected.length, `${right} of ${expected.length}; ${last}`);
}
const [heads] = await panelsOf("figure2"), cells = rows("figure2").filter((row) => row.n === "16" && row.set === "3");
const cell = cells.find((row) => row.rank_from_the_largest === "1"), shown = await hover("figure2", ...pointOf(heads, await heightOf("figure2"), 15, 3));
check("figure2: so has a cell", near(numbersOf(shown)[0], Number(cell.coefficient)), `${shown} ${cell.coefficient}`);

// Switches.
const visible = (figure, name) => page.evaluate(([f, n]) => {
    const button = [...document.querySelectorAll(`#${f} .switches button`)].find((b) => b.textContent === n);
    const groups = [...document.querySelector(`#${f} .drawn`).shadowRoot.querySelectorAll("g[id^=gnuplot_plot_]")];
    return { pressed: button.getAttribute("aria-pressed"), drawn: groups.filter((g) => !g.hasAttribute("hidden") && g.querySelector("path,polygon,use")).length };
}, [figure, name]);
const before = await visible("accuracy", "softmax");
const press = () => page.locator("#accuracy .switches button", { hasText: /^softmax$/ }).click();
await press();
const after = await visible("accuracy", "softmax");
check("a switch hides a policy's curve and interval", before.pressed === "true" && after.pressed === "false" && after.drawn <= before.drawn - 4, JSON.stringify([before, after]));
await press();
check("and shows them again", (await visible("accuracy", "softmax")).drawn === before.drawn);
const colours = await page.evaluate(() => [...document.querySelectorAll("#accuracy .switches button")].slice(1, 4).map((b) => getComputedStyle(b).borderLeftColor));
check("switches have the colours of their curves", colours.join(";") === "rgb(0, 114, 178);rgb(213, 94, 0);rgb(0, 158, 115)", colours.join(";"));
await page.emulateMedia({ colorScheme: "dark" });
await page.waitForFunction(() => getComputedStyle(document.querySelectorAll("#accuracy .switches button")[1]).borderLeftColor !== "rgb(0, 114, 178)", null, { timeout: 5000 }).catch(() => {});
const inTheDark = await page.evaluate(() => [...document.querySelectorAll("#accuracy .switches button")].filter((b) => /^(softmax|linear:16)$/.test(b.textContent)).map((b) => getComputedStyle(b).borderLeftColor));
check("in the dark, too", inTheDark.join(";") === "rgb(61, 155, 224);rgb(229, 233, 239)", inTheDark.join(";"));
await page.emulateMedia({ colorScheme: "light" });

// The keyboard.
await page.locator("#accuracy .drawn").focus();
await page.keyboard.press("ArrowDown");
const [first] = numbersOf(await page.textContent(".tip"));
await page.keyboard.press("ArrowRight");
const [second] = numbersOf(await page.textContent(".tip"));
check("arrow keys go along a curve", second > first, `${first} ${second}`);
await page.keyboard.press("Escape");
check("and Escape ends it", await page.locator(".tip").isHidden());
check("nothing is printed on the console", said.length === 0, said.join("; "));
check("nothing is asked of any host", asked.length === 0, asked.join(" "));

const plain = await openPage(browser, file, { ready: false, context: { javaScriptEnabled: false } });
const images = await plain.page.evaluate(() => [...document.querySelectorAll("figure img")].filter((i) => i.naturalWidth > 0 && i.clientWidth > 200).length);
check("without scripts the pictures are there", images === (await page.locator(".drawn").count()) && images > 5, String(images));
await browser.close();
finish();
