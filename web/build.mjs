// Makes build/web/playground.html: one file with everything inside, from web/playground/ and build/wasm/live.wasm.
//
//     node web/build.mjs [BUILD_FOLDER] [OUTPUT]
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const build = resolve(process.argv[2] ?? join(here, "../build/wasm"));
const output = resolve(process.argv[3] ?? join(here, "../build/web/playground.html"));
const read = (path) => readFileSync(path, "utf8");

// Modules one after the other, each after those it imports, as functions that return what they export. Imports and exports
// begin a line, and what is exported is a declaration of one name or { name as other }.
function bundle(path, done = new Map()) {
    if (done.has(path)) return "";
    const name = `module${done.size}`;
    done.set(path, name);
    let text = read(path), before = "";
    const exported = [...text.matchAll(/^export (?:async )?(?:const|let|function|class) (\w+)/gm)].map((match) => match[1]);
    text = text.replace(/^import (\{.*\}) from "(\..*)";$/gm, (_, names, from) => {
        const other = resolve(dirname(path), from);
        before += bundle(other, done);
        return `const ${names.replace(/ as /g, ": ")} = ${done.get(other)};`;
    });
    text = text.replace(/^export \{ (\w+) as (\w+) \};$/gm, (_, own, other) => (exported.push(`${other}: ${own}`), ""));
    return `${before}const ${name} = (() => {\n${text.replace(/^export /gm, "")}\nreturn { ${exported.join(", ")} };\n})();\n`;
}

// The parameters of the first head of a file (lab/retrieval/head_file.h).
function headOf(file) {
    const bytes = readFileSync(file), described = bytes.readUInt32LE(12);
    let at = 16 + described + 8;
    const count = Number(bytes.readBigUInt64LE(at));
    const bits = bytes.subarray(at + 8, at + 8 + Math.ceil(count / 16 / 8));
    at += 8 + bits.length;
    const floats = Buffer.alloc(count * 4);
    for (let i = 0; i < count; i++) {
        const isShort = (bits[i >> 7] >> ((i >> 4) & 7)) & 1;
        if (isShort) bytes.copy(floats, i * 4 + 2, at, at + 2);
        else bytes.copy(floats, i * 4, at, at + 4);
        at += isShort ? 2 : 4;
    }
    return floats;
}

const embedded = {
    module: readFileSync(join(build, "live.wasm")).toString("base64"),
    head: headOf(join(here, "../lab/heads/f32.heads")).toString("base64"),
    model: readFileSync(join(here, "playground/stories260K-q8_0.gguf")).toString("base64"),
};
const script = bundle(join(here, "playground/main.js")).replace("/*EMBEDDED*/ {}", () => JSON.stringify(embedded));
const page = read(join(here, "playground/index.html")).replace("/*STYLE*/", () => read(join(here, "playground/style.css")))
    .replace("/*SCRIPT*/", () => script);
mkdirSync(dirname(output), { recursive: true });
writeFileSync(`${output}.new`, page);
renameSync(`${output}.new`, output);
console.log(`${output}: ${(page.length / 1e6).toFixed(1)} MB`);
