// Runs a WebAssembly program of the tests in Node: WASI from Node itself, the environment and the arguments passed on.
//
//     node tools/run-wasm.mjs PROGRAM.wasm [argument ...]
//
// WebAssembly has no longjmp. The harness of the tests asks this program to call a function that may end early, and to
// end it (tests/support/early_end.h): an exception takes the place of the jump.
import { readFileSync } from "node:fs";
import { setFlagsFromString } from "node:v8";
import { WASI } from "node:wasi";

// Node 20 calls its WASI from WebAssembly by V8's "fast API calls". Where the collector runs during such a program, it misses
// frames below, and Node crashes when the program ends: 8 of 200 runs of row/requests on a busy machine, without them none.
setFlagsFromString("--no-turbo-fast-api-calls");

const [program, ...args] = process.argv.slice(2);
if (!program) {
    console.error("usage: run-wasm.mjs PROGRAM.wasm [argument ...]");
    process.exit(2);
}
const wasi = new WASI({ version: "preview1", args: [program, ...args], env: process.env, preopens: { "/": "/" } });
const early = new Error("the function ended early");
let instance;
const whet = {
    call(pointer) {
        const { __indirect_function_table: table, __stack_pointer: stack } = instance.exports;
        const top = stack.value;
        try {
            table.get(pointer)();
        } catch (error) {
            if (error !== early) throw error;
            stack.value = top;
        }
    },
    end_call() {
        throw early;
    },
};
const module = new WebAssembly.Module(readFileSync(program));
instance = new WebAssembly.Instance(module, { ...wasi.getImportObject(), whet });
// At once: threads of the engine that still compile have crashed while Node cleaned up.
process.reallyExit(wasi.start(instance));
