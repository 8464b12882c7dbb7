// The playground in Chromium: numbers on the page against the library's own, and everything that can be moved.
//
//     node tests/web/playground.mjs PAGE SCRATCH; WHET_BIN names the program
import { execFileSync } from "node:child_process";
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { check, finish, openBrowser, openPage } from "./browser.mjs";

const [file, scratch] = process.argv.slice(2);
const model = new URL("../../web/playground/stories260K-q8_0.gguf", import.meta.url).pathname;
const whet = (args, input = "") => execFileSync(process.env.WHET_BIN, args, { input, encoding: "utf8" });
const browser = await openBrowser();
const { page, said, asked } = await openPage(browser, file);
const cell = (row, column) => page.textContent(`#numbers tbody tr:nth-child(${row}) > :nth-child(${column})`);
const isNear = (a, b, tolerance = 2e-3) => Math.abs(a - b) <= tolerance * Math.max(1e-3, Math.abs(b));
const set = async (id, value) => {
    await page.fill(id, String(value));
    await page.press(id, "Enter");
};

// Pasted numbers against the program.
await page.selectOption("#source", "pasted");
await page.fill("#paste", "1 2 3 4 4.5 2 1 0.5");
for (const [row, policy] of [[1, "softmax"], [2, "adaptive"]]) {
    const stats = whet(["softmax", "--policy", policy, "--stats"], "1 2 3 4 4.5 2 1 0.5\n");
    const told = JSON.parse(stats.trim().split("\n").find((line) => line.startsWith("{")));
    check(`${policy}: largest weight and beta are the program's`,
        isNear(Number(await cell(row, 2)), told.max_prob) && isNear(Number(await cell(row, 6)), told.beta),
        `${await cell(row, 2)} ${await cell(row, 6)} for ${stats}`);
}
check("effective items are e^H", isNear(Number(await cell(1, 5)), Math.exp(Number(await cell(1, 3)))));

// Dragging a bar, and the keyboard.
await page.selectOption("#preset", "0");
const before = Number(await cell(1, 2));
await page.locator("#bars").scrollIntoViewIfNeeded();
const handle = await page.locator('.handle[data-i="5"]').boundingBox();
await page.mouse.move(handle.x + handle.width / 2, handle.y + handle.height - 4);
await page.mouse.down();
await page.mouse.move(handle.x + handle.width / 2, handle.y + 4, { steps: 4 });
await page.mouse.up();
check("a dragged bar takes weight from the largest", Number(await cell(1, 2)) < 0.8 * before, `${before} ${await cell(1, 2)}`);
await page.focus('.handle[data-i="7"]');
await page.keyboard.press("PageUp");
await page.keyboard.press("ArrowUp");
check("so do keys", isNear(Number(await page.getAttribute('.handle[data-i="7"]', "aria-valuenow")), 1.1, 1e-3));
check("the focus stays on the bar", (await page.evaluate(() => document.activeElement.dataset.i)) === "7");

// Sliders, policies, long rows.
await page.locator("#n").fill("160");
check("the slider reaches 131,072 items", (await page.inputValue("#n-number")) === "131072");
check("they are computed", /^131,072 items/.test(await page.textContent("#status")));
console.log(`     131,072 items took ${await page.evaluate(() => document.body.dataset.updateMilliseconds)} ms`);
await set("#n-number", 16);
await page.selectOption("#add-policy", { index: 5 });
const added = await page.locator("#policies .policy").count();
check("a policy is added", added === 4);
await page.fill('input[aria-label="Policy 4"]', "length:8+entmax15");
await page.press('input[aria-label="Policy 4"]', "Tab");
check("a composition has its parameter as a control", (await page.locator("#policies .policy:nth-child(4) input[type=number]").inputValue()) === "8");
await page.locator("#policies .policy:nth-child(4) input[type=number]").fill("4");
check("which changes it", (await page.textContent("#numbers tbody tr:nth-child(4) th")) === "length:4+entmax15");
await page.selectOption('select[aria-label="Map of policy 4"]', { label: "softmax" });
check("without its map it is the temperature", (await page.textContent("#numbers tbody tr:nth-child(4) th")) === "length:4");
await page.selectOption('select[aria-label="Map of policy 4"]', "sparsemax");
check("another map is a choice", (await page.textContent("#numbers tbody tr:nth-child(4) th")) === "length:4+sparsemax");
await page.fill('input[aria-label="Policy 4"]', "entmux15");
await page.press('input[aria-label="Policy 4"]', "Tab");
check("a wrong name gets a reason", /entmax15/.test(await page.textContent("#status")) && (await page.locator("#status.problem").count()) === 1);

// Links carry the state.
await page.selectOption("#curve-measure", "entropy");
check("the curve can show the entropy beside ln n", /^Entropy over the number/.test(await page.textContent("#curve-caption")) && /all items alike/.test(await page.textContent("#curve")));
await page.fill("#prompt", "Lily & Tom \u{1f600}");
await page.press("#prompt", "Tab");
await page.selectOption("#head-n", "2048");
const hash = await page.evaluate(() => location.hash);
const linked = await openPage(browser, file, { hash });
check("a link shows the same numbers", (await linked.page.textContent("#numbers tbody")) === (await page.textContent("#numbers tbody")));
check("and has the other controls", (await linked.page.inputValue("#prompt")) === "Lily & Tom \u{1f600}" && (await linked.page.inputValue("#head-n")) === "2048" &&
    (await linked.page.inputValue("#curve-measure")) === "entropy" && linked.said.length === 0, linked.said.join("; "));
await page.selectOption("#curve-measure", "maxProb");
await page.fill("#prompt", "Once upon a time");
const broken = await openPage(browser, file, { hash: "#s=%7B%22source%22%3A7%7D" });
check("a damaged link is named", /link/.test(await broken.page.textContent("body")) && broken.said.length === 0, broken.said.join("; "));
await broken.page.context().close();

// Presets, curve, pictures.
await page.selectOption("#preset", "1");
await page.click("#reveal");
check("a preset has an answer", /β is above 1 from/.test(await page.textContent("#answer")));
check("the curve says where the polynomial acts", /adaptive acts .* from/.test(await page.textContent("#curve-caption")));
for (const picture of ["curve", "bars"]) {
    await page.selectOption("#picture", picture);
    for (const [kind, start] of [["svg", "<svg"], ["png", "\x89PNG"]]) {
        const [download] = await Promise.all([page.waitForEvent("download"), page.click(`#save-${kind}`)]);
        check(`the ${picture} is saved as ${kind}`, readFileSync(await download.path(), "latin1").startsWith(start) && download.suggestedFilename() === `whet-${picture}.${kind}`);
    }
}

// Files: a CSV dropped on the page, good and damaged.
const drop = (name, text) => page.evaluate(([name, text]) => {
    const data = new DataTransfer();
    data.items.add(new File([text], name));
    dispatchEvent(new DragEvent("drop", { dataTransfer: data }));
}, [name, text]);
await drop("logits.csv", "logit\n1.5,2\n3;4\n");
await page.waitForFunction(() => document.querySelector("#n-number").value === "4");
check("a dropped CSV file is the row", (await page.locator(".handle").count()) === 4);
for (const [name, text, reason] of [["bad.csv", "1,2\n3,x", /line 2: 'x' is not a number/], ["nul.csv", "1\0 2", /NUL byte at offset 1/], ["one.csv", "1", /fewer than two/]]) {
    await drop(name, text);
    await page.waitForFunction((source) => new RegExp(source).test(document.querySelector("#status").textContent), reason.source, { timeout: 5000 }).catch(() => {});
    check(`${name} gets a reason`, reason.test(await page.textContent("#status")), await page.textContent("#status"));
}

await drop("long.csv", Array.from({ length: 1000 }, (_, i) => i % 7).join("\n"));
await page.waitForFunction(() => document.querySelector("#n-number").value === "1000");
await page.click("#copy-link");
await page.waitForFunction(() => /link/.test(document.querySelector("#status").textContent));
check("a link that cannot hold all numbers says so", /first 256 of the numbers/.test(await page.textContent("#status")), await page.textContent("#status"));
await drop("large.csv", "1e39,2,3");
await page.waitForFunction(() => document.querySelector("#status").classList.contains("problem"), null, { timeout: 5000 }).catch(() => {});
check("a number too large for the row gets a reason", /line 1: '1e39' is too large/.test(await page.textContent("#status")), await page.textContent("#status"));

// The trained head.
await page.selectOption("#preset", "0");
await page.selectOption("#head-n", "16");
for (let i = 0; i < 19; i++) await page.click("#head-draw");
const tally = await page.locator("#head-numbers tbody tr:first-child td").allTextContents();
check("the head answers sets of 16 right", Number(tally[3]) === 20 && Number(tally[2]) >= 18, tally.join(" "));
await page.selectOption("#head-n", "16384");
for (let i = 0; i < 14; i++) await page.click("#head-draw");
const lost = await page.locator("#head-numbers tbody tr:first-child td").allTextContents();
check("and loses the item among 16,384", Number(lost[2]) / Number(lost[3]) < 0.8, lost.join(" "));

// The live model against the program.
async function write(policy, steps) {
    const run = Number(await page.evaluate(() => document.body.dataset.written ?? 0));
    await page.fill("#model-policy", policy);
    await page.fill("#model-steps", String(steps));
    await page.click("#model-run");
    await page.waitForFunction((last) => Number(document.body.dataset.written ?? 0) > last, run, { timeout: 120000 });
    return page.textContent("#story");
}
const generated = (policy, steps) => whet(["lm", "generate", model, "--prompt", "Once upon a time", "--tokens", String(steps), "--policy", policy, "--quiet"]).trimEnd();
for (const policy of ["softmax", "fixed:1.5"]) {
    const text = (await write(policy, 60)).trimEnd(), expected = generated(policy, 60);
    check(`the model writes what the program writes under ${policy}`, expected.includes(text) || text === expected, `${text}\n     ${expected}`);
}
console.log(`     the model: ${await page.textContent("#model-speed")}`);
const story = await write("softmax", 60);
await page.click("#grid button:nth-child(13)");
check("a chosen head shows its weights", /Layer 1, head 4: weights of the last token over/.test(await page.textContent("#row-caption")));
const sum = await page.evaluate(() => [...document.querySelectorAll("#row-picture rect[data-tip]")].reduce((s, r) => s + Number(r.dataset.tip.split(" ").pop()), 0));
check("which sum to one", isNear(sum, 1, 5e-3), String(sum));
await page.selectOption("#model-scope", "one");
const changed = await write("fixed:0.01", 60);
check("a policy for one head changes the text", changed !== story);
check("and that head's beta", /layer 1, head 4, fixed:0\.01: .*β 0\.01/.test(await page.getAttribute("#grid button:nth-child(13)", "aria-label")));

// Damaged models.
const bytes = readFileSync(model);
for (const [name, data] of [["cut.gguf", bytes.subarray(0, 5000)], ["empty.gguf", Buffer.alloc(0)], ["noise.gguf", Buffer.alloc(4000, 7)]]) {
    writeFileSync(join(scratch, name), data);
    await page.setInputFiles("#model-file", join(scratch, name));
    await page.waitForFunction((n) => document.querySelector("#status").textContent.startsWith(n), name, { timeout: 10000 }).catch(() => {});
    check(`${name} gets a reason`, (await page.textContent("#status")).startsWith(`${name}: `) && !/the file:/.test(await page.textContent("#status")), await page.textContent("#status"));
}
const afterwards = await write("softmax", 20);
check("after them the model that was open still writes", afterwards.length > 20 && story.startsWith(afterwards.trimEnd()), `${afterwards} ${await page.textContent("#status")}`);
await drop("model.gguf", "GGUF");
await page.waitForFunction(() => document.querySelector("#status").textContent.startsWith("model.gguf"), null, { timeout: 10000 }).catch(() => {});
check("a dropped GGUF file is opened, too", /^model\.gguf: /.test(await page.textContent("#status")), await page.textContent("#status"));
await page.setInputFiles("#model-file", model);
await page.waitForFunction(() => /Lily/.test(document.querySelector("#story").textContent), null, { timeout: 60000 });
check("a model from a file writes", true);

// Looks.
for (const [name, width, colorScheme] of [["wide-light", 1300, "light"], ["wide-dark", 1300, "dark"], ["middle", 800, "light"], ["narrow-light", 380, "light"], ["narrow-dark", 380, "dark"]]) {
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme });
    await page.waitForFunction(() => document.querySelector("#bars svg").viewBox.baseVal.width <= Math.max(300, document.querySelector("#bars").clientWidth) + 1);
    const small = await page.evaluate(() => [...document.querySelectorAll("#bars text,#curve text")].filter((t) => t.getScreenCTM().a < 0.9).length);
    check(`${name}: the text of pictures is not shrunk`, small === 0, String(small));
    check(`${name}: no name lies on a bar`, await page.evaluate(() => [...document.querySelectorAll("#bars text")].slice(1).every((t) => {
        const name = t.getBoundingClientRect();
        return [...document.querySelectorAll("#bars path")].slice(2).every((p) => p.getBoundingClientRect().bottom <= name.top + 1 || p.getBoundingClientRect().top >= name.bottom - 1);
    })));
    const picture = join(scratch, `playground-${name}.png`);
    await page.screenshot({ path: picture, fullPage: true });
    if (process.env.WHET_KEEP_SCREENSHOTS) copyFileSync(picture, join(process.env.WHET_KEEP_SCREENSHOTS, `playground-${name}.png`));
    const wider = await page.evaluate(() => (document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll("main *")]
        .filter((e) => e.getBoundingClientRect().right > innerWidth && !e.closest(".picture,.wide")).map((e) => e.id || e.className || e.tagName)));
    check(`${name}: nothing is wider than the window`, wider.length === 0, wider.join(" "));
}
const unlabelled = await page.evaluate(() => [...document.querySelectorAll("input,select,button,textarea")].filter((e) => !(e.labels?.length || e.getAttribute("aria-label") || e.textContent.trim())).map((e) => e.outerHTML));
check("every control has a name", unlabelled.length === 0, unlabelled.join(" "));
check("nothing is printed on the console", said.length === 0, said.join("; "));
check("nothing is asked of any host", asked.length === 0, asked.join(" "));
await browser.close();
finish();
