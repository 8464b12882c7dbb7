// A page in Chromium for tests in Node: cases are reported as check.h does. Console messages, exceptions and requests to
// anywhere but the page's own file are recorded.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(new URL("../../build/playwright/package.json", import.meta.url));
const { chromium } = require("playwright-core");

let passed = 0, failed = 0;

export function check(name, isRight, details = "") {
    console.log(isRight ? `ok   ${name}` : `     ${details}\nFAIL ${name}`);
    if (isRight) passed++;
    else failed++;
}

export function finish() {
    console.log(`${passed} passed, ${failed} failed, 0 skipped`);
    process.exitCode = failed ? 1 : 0;
}

export async function openBrowser() {
    return chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
}

/** A page of a file, and what it said and asked for. */
export async function openPage(browser, file, options = {}) {
    const context = await browser.newContext({ viewport: { width: 1200, height: 900 }, acceptDownloads: true, ...options.context });
    const page = await context.newPage(), said = [], asked = [];
    page.on("console", (message) => said.push(message.text()));
    page.on("pageerror", (error) => said.push(error.message));
    page.on("request", (request) => {
        if (!/^(data|blob):/.test(request.url()) && !request.isNavigationRequest()) asked.push(request.url());
    });
    await page.goto(pathToFileURL(file) + (options.hash ?? ""));
    if (options.ready !== false) await page.waitForFunction(() => document.body.dataset.ready === "yes", null, { timeout: 120000 });
    return { page, said, asked };
}
